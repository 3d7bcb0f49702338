"""What is trained and how: model, data, algorithm, training, rollout (`reward.py` has the reward).

Fields keep verl's and the PPO literature's words; `docs/fields.md` and `render/verl.py` say which verl key each sets.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from ppojob_operator.api.v1alpha1.base import (
    Count,
    Fraction,
    Model,
    NonNegative,
    Path,
    Positive,
    Text,
    Whole,
    rules,
)
from ppojob_operator.api.v1alpha1.preparation import Prepare


class Lora(Model):
    """Low-rank adapters on the actor."""

    rank: Annotated[int, Field(ge=1, le=4096)] = Field(default=16, description="Rank of the adapters")
    alpha: Count = Field(default=16, description="Scale of the adapters")
    target_modules: Annotated[list[Text], Field(max_length=64)] = Field(
        default_factory=list, description="Names of the layers that get adapters; default all linear layers"
    )


class Actor(Model):
    """The policy. The reference is the same path, frozen."""

    path: Path = Field(description="Path in the trainer's pods (image or claim) or a hub name of a Hugging Face model")
    lora: Lora | None = Field(default=None, description="Train low-rank adapters instead of all weights")


class Critic(Model):
    """The value model, for GAE only."""

    path: Path = Field(description="Model whose body the critic starts from")


class Models(Model):
    """Models to train."""

    actor: Actor = Field(description="The policy; the reference is the same path, frozen")
    critic: Critic | None = Field(default=None, description="Value model; default the actor's path where GAE needs one")
    trust_remote_code: bool = Field(default=False, description="Run Python code that a model's folder brings along")


_ANY_FILE = "(has(self.train) && size(self.train) > 0) || (has(self.validation) && size(self.validation) > 0)"
_FILES = _ANY_FILE.replace("||", "&&")


class Data(Model):
    """Prompts, as Parquet files with verl's columns (data_source, prompt, reward_model.ground_truth, extra_info)."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (f"has(self.prepare) || ({_FILES})", "set train and validation, or prepare"),
            (f"!has(self.prepare) || !({_ANY_FILE})", "set either prepare, or train and validation", ".prepare"),
        )
    )
    train: Annotated[list[Path], Field(max_length=64)] = Field(
        default_factory=list, description="Parquet files, paths in the trainer's pods; not with prepare"
    )
    validation: Annotated[list[Path], Field(max_length=64)] = Field(
        default_factory=list, description="Parquet files (verl always builds a validation set); not with prepare"
    )
    prepare: Prepare | None = Field(default=None, description="Make these files, in a stage before training")
    max_prompt_length: Count = Field(default=512, description="Tokens; longer prompts are filtered out")
    max_response_length: Count = Field(default=256, description="Tokens; a response that reaches them is cut")
    seed: Whole = Field(default=42, description="Of the order of prompts")
    shuffle: bool = Field(default=True, description="Whether each epoch has another order of prompts")
    validation_max_rows: Count | None = Field(default=None, description="Validate on so many rows only")


class Estimator(StrEnum):
    """Advantage estimators (verl's `algorithm.adv_estimator`)."""

    GAE = "GAE"
    GRPO = "GRPO"
    RLOO = "RLOO"
    REINFORCE_PLUS_PLUS = "ReinforcePlusPlus"

    @property
    def grouped(self) -> bool:
        """Whether it compares the samples of one prompt."""
        return self in {Estimator.GRPO, Estimator.RLOO}


class KLPlacement(StrEnum):
    """Where the KL penalty acts."""

    NONE = "None"
    LOSS = "Loss"
    REWARD = "Reward"
    BOTH = "Both"


class KLEstimate(StrEnum):
    """How the penalty estimates KL (k1, |k1|, k2, k3); the figure `kl` is always k3."""

    KL = "KL"
    ABS = "Abs"
    MSE = "MSE"
    LOW_VARIANCE = "LowVariance"


class KLControl(StrEnum):
    """Fixed coefficient, or one steered to a target (Ziegler et al., 'Fine-Tuning Language Models from Human
    Preferences').
    """

    FIXED = "Fixed"
    ADAPTIVE = "Adaptive"


class KL(Model):
    """KL penalty to the reference."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("self.control == 'Adaptive' || !has(self.target)", "target goes with control Adaptive only", ".target"),
        )
    )
    placement: KLPlacement | None = Field(
        default=None, description="Default: Reward for GAE and ReinforcePlusPlus, Loss for GRPO and RLOO"
    )
    coefficient: NonNegative = Field(default=0.001, description="Weight of the penalty; where Adaptive, its start")
    estimate: KLEstimate | None = Field(
        default=None, description="Default: KL (k1) in the reward, LowVariance (k3) in the loss"
    )
    control: KLControl = Field(default=KLControl.FIXED, description="Adaptive steers the coefficient to target")
    target: Positive | None = Field(default=None, description="KL that Adaptive steers to; default 0.1")
    horizon: Count = Field(default=10_000, description="Samples over which Adaptive corrects")
    monitor: bool = Field(default=True, description="Keep a reference under placement None, so that `kl` exists")


_ADAPTIVE_IN_REWARD = (
    "self.kl.control != 'Adaptive' || (has(self.kl.placement) ? self.kl.placement in ['Reward', 'Both'] : "
    "self.estimator in ['GAE', 'ReinforcePlusPlus'])"
)


class Algorithm(Model):
    """Advantages and losses."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (_ADAPTIVE_IN_REWARD, "control Adaptive needs kl.placement Reward or Both", ".kl.control"),
        )
    )
    estimator: Estimator = Field(default=Estimator.GAE, description="Of advantages; GAE trains a critic")
    gamma: Fraction = Field(default=1.0, description="Discount")
    lambda_: Annotated[float, Field(ge=0, le=1, alias="lambda")] = Field(default=1.0, description="GAE's lambda")
    kl: KL = Field(default_factory=KL, description="KL penalty to the reference")
    clip_ratio: Fraction = Field(default=0.2, description="Clip of the probability ratio, both sides")
    clip_ratio_high: Positive | None = Field(default=None, description="Upper clip (DAPO: 0.28); default clipRatio")
    value_clip: Positive = Field(default=0.5, description="Clip of the critic's values")
    entropy_coefficient: NonNegative = Field(default=0.0, description="Weight of the entropy bonus")


class Strategy(StrEnum):
    """How a model is spread over devices."""

    FSDP = "FSDP"
    FSDP2 = "FSDP2"


class Training(Model):
    """Steps, batches and optimizers."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "self.batchSize % self.miniBatchSize == 0",
                "miniBatchSize must divide batchSize (both count prompts)",
                ".miniBatchSize",
            ),
        )
    )
    total_steps: Count = Field(description="Steps of the whole run, all attempts together")
    batch_size: Count = Field(default=256, description="Prompts a step")
    mini_batch_size: Count = Field(default=64, description="Prompts an update")
    micro_batch_size_per_device: Count = Field(
        default=4, description="Samples at a time in an update, actor and critic"
    )
    log_prob_micro_batch_size_per_device: Count = Field(
        default=8, description="Samples at a time for the policy's log-probabilities"
    )
    reference_micro_batch_size_per_device: Count = Field(
        default=4, description="Samples at a time for the reference's log-probabilities"
    )
    ppo_epochs: Count = Field(default=4, description="Passes over a step's samples")
    learning_rate: Positive = Field(
        default=1e-6,
        description="Actor's; write 1.0e-6: kubectl reads 1e-6 too, but other YAML readers (PyYAML) take it for text",
    )
    critic_learning_rate: Positive = Field(default=1e-5, description="Critic's")
    learning_rate_warmup_steps: Whole = Field(default=0, description="Steps over which the rates rise from 0")
    critic_warmup_steps: Whole = Field(default=0, description="Steps in which only the critic is trained")
    weight_decay: NonNegative = Field(default=0.01, description="Of AdamW, actor and critic")
    gradient_clip: Positive = Field(default=1.0, description="Largest gradient norm, actor and critic")
    gradient_checkpointing: bool | None = Field(
        default=None, description="Recompute activations to save memory; default: on, but off on CPU"
    )
    strategy: Strategy = Field(default=Strategy.FSDP2, description="How models are spread over devices")
    parameter_offload: bool = Field(default=False, description="Keep weights in host memory while not in use")
    optimizer_offload: bool = Field(default=False, description="Keep optimizer state in host memory while not in use")
    validate_every_steps: Whole = Field(default=0, description="0: never")
    validate_before_start: bool = Field(default=False, description="Validate before the first attempt's first step")


class Engine(StrEnum):
    """What generates the responses."""

    VLLM = "VLLM"
    SGLANG = "SGLang"
    TRANSFORMERS = "Transformers"


class Rollout(Model):
    """Generation."""

    engine: Engine | None = Field(default=None, description="Default: VLLM, but Transformers on CPU")
    samples_per_prompt: Annotated[int, Field(ge=1, le=4096)] = Field(
        default=1, description="Responses to each prompt; GRPO and RLOO need 2 or more"
    )
    temperature: Positive = Field(default=1.0, description="Of sampling")
    top_p: Fraction = Field(default=1.0, description="Of sampling")
    tensor_parallel_size: Annotated[int, Field(ge=1, le=1024)] = Field(default=1, description="Devices of one engine")
    memory_fraction: Fraction = Field(default=0.5, description="Share of the device's memory for the engine")
    max_sequences: Count = Field(default=256, description="Sequences generated at the same time on an engine")
    max_batched_tokens: Count | None = Field(default=None, description="Tokens of one engine step; default verl's")
    enforce_eager: bool = Field(default=True, description="No graph capture: starts 30 s earlier, decodes slower")
