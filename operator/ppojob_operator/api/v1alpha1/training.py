"""What is trained and how: model, data, reward, algorithm, training, rollout.

Fields keep verl's and the PPO literature's words; `docs/fields.md` and `render/verl.py` say which verl key each sets.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from ppojob_operator.api.v1alpha1.base import (
    Count,
    Fraction,
    Model,
    Name,
    NonNegative,
    ObjectName,
    Path,
    Positive,
    Seconds,
    Text,
    Whole,
    list_map,
    rules,
)


class Lora(Model):
    """Low-rank adapters on the actor."""

    rank: Annotated[int, Field(ge=1, le=4096)] = 16
    alpha: Count = 16
    target_modules: Annotated[list[Text], Field(max_length=64)] = Field(default_factory=lambda: ["all-linear"])


class Actor(Model):
    """The policy. The reference is the same path, frozen."""

    path: Path = Field(description="Path in the trainer's pods (image or claim) or a hub name of a Hugging Face model")
    lora: Lora | None = None


class Critic(Model):
    """The value model, for GAE only."""

    path: Path = Field(description="Model whose body the critic starts from")


class Models(Model):
    """Models to train."""

    actor: Actor
    critic: Critic | None = Field(default=None, description="Defaults to the actor's path where the estimator is GAE")
    trust_remote_code: bool = False


class Data(Model):
    """Prompts, as Parquet files with verl's columns."""

    train: Annotated[list[Path], Field(min_length=1, max_length=64)] = Field(description="Parquet files")
    validation: Annotated[list[Path], Field(min_length=1, max_length=64)] = Field(
        description="Parquet files; verl always builds a validation set"
    )
    max_prompt_length: Count = Field(default=512, description="Tokens; longer prompts are filtered out")
    max_response_length: Count = Field(default=256, description="Tokens")
    seed: Whole = 42
    shuffle: bool = True
    validation_max_rows: Count | None = None


class RuleType(StrEnum):
    """Rules that need no model."""

    GSM8K = "GSM8K"
    EXACT_MATCH = "ExactMatch"
    REGEX = "Regex"


class RegexMode(StrEnum):
    """What a regular expression's reward is."""

    MATCH = "Match"
    SHARE = "Share"


class RewardRule(Model):
    """A reward computed from the response's text and the row's ground truth."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("(self.type == 'Regex') == has(self.pattern)", "pattern goes with type Regex, and only with it"),
            ("self.type == 'Regex' || !has(self.mode)", "mode goes with type Regex only"),
        )
    )
    type: RuleType = Field(
        description="GSM8K: the number after '####' equals the ground truth; ExactMatch: the stripped response equals "
        "it; Regex: see mode"
    )
    pattern: Annotated[str, Field(min_length=1, max_length=1024)] | None = Field(
        default=None, description="Python regular expression"
    )
    mode: RegexMode | None = Field(
        default=None, description="Match (default): 1 where the pattern is found; Share: share of matched characters"
    )


class RewardFunction(Model):
    """A user's Python function, run in trainer pods only."""

    config_map: ObjectName = Field(description="ConfigMap in the job's namespace that holds the file")
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+\.py$")] = "reward.py"
    name: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = Field(
        default="compute_score",
        description="Called with data_source, solution_str, ground_truth, extra_info; returns a number or a map with "
        "'score'",
    )


class RewardModel(Model):
    """A given reward model."""

    path: Path


class RewardTerm(Model):
    """One part of the reward."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "[has(self.rule), has(self.function), has(self.model)].filter(x, x).size() == 1",
                "set exactly one of rule, function, model",
            ),
        )
    )
    name: Name
    weight: float = 1.0
    rule: RewardRule | None = None
    function: RewardFunction | None = None
    model: RewardModel | None = None


class Reward(Model):
    """Weighted sum of its terms."""

    terms: Annotated[list[RewardTerm], Field(min_length=1, max_length=16, json_schema_extra=list_map("name"))]
    timeout_seconds: Seconds = Field(default=60, description="For one response")


class Estimator(StrEnum):
    """Advantage estimators (verl's `algorithm.adv_estimator`)."""

    GAE = "GAE"
    GRPO = "GRPO"
    RLOO = "RLOO"
    REINFORCE_PLUS_PLUS = "ReinforcePlusPlus"

    @property
    def grouped(self) -> bool:
        return self in {Estimator.GRPO, Estimator.RLOO}


class KLPlacement(StrEnum):
    """Where the KL penalty acts."""

    NONE = "None"
    LOSS = "Loss"
    REWARD = "Reward"
    BOTH = "Both"


class KLEstimate(StrEnum):
    """How the penalty estimates KL; the figure `kl` is always k3."""

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
            (
                "self.control != 'Adaptive' || (has(self.placement) && self.placement in ['Reward', 'Both'])",
                "control Adaptive needs placement Reward or Both",
            ),
            ("self.control == 'Adaptive' || !has(self.target)", "target goes with control Adaptive only"),
        )
    )
    placement: KLPlacement | None = Field(
        default=None, description="Default: Reward for GAE and ReinforcePlusPlus, Loss for GRPO and RLOO"
    )
    coefficient: NonNegative = 0.001
    estimate: KLEstimate = KLEstimate.LOW_VARIANCE
    control: KLControl = KLControl.FIXED
    target: Positive | None = Field(default=None, description="KL that Adaptive steers to; default 0.1")
    horizon: Count = Field(default=10_000, description="Samples over which Adaptive corrects")
    monitor: bool = Field(default=True, description="Keep a reference under placement None, so that `kl` exists")


class Algorithm(Model):
    """Advantages and losses."""

    estimator: Estimator = Estimator.GAE
    gamma: Fraction = 1.0
    lambda_: Annotated[float, Field(ge=0, le=1, alias="lambda")] = 1.0
    kl: KL = Field(default_factory=KL)
    clip_ratio: Fraction = 0.2
    clip_ratio_high: Positive | None = Field(default=None, description="Upper clip (DAPO: 0.28); default clipRatio")
    value_clip: Positive = 0.5
    entropy_coefficient: NonNegative = 0.0


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
            ),
        )
    )
    total_steps: Count
    batch_size: Count = Field(default=256, description="Prompts a step")
    mini_batch_size: Count = Field(default=64, description="Prompts an update")
    micro_batch_size_per_device: Count = 4
    log_prob_micro_batch_size_per_device: Count = 8
    reference_micro_batch_size_per_device: Count = 4
    ppo_epochs: Count = 4
    learning_rate: Positive = Field(default=1e-6, description="Actor's; write 1.0e-6, YAML readers take 1e-6 for text")
    critic_learning_rate: Positive = Field(default=1e-5, description="Critic's")
    learning_rate_warmup_steps: Whole = 0
    critic_warmup_steps: Whole = 0
    weight_decay: NonNegative = 0.01
    gradient_clip: Positive = 1.0
    gradient_checkpointing: bool | None = Field(default=None, description="Default: on, but off on CPU")
    strategy: Strategy = Strategy.FSDP2
    parameter_offload: bool = False
    optimizer_offload: bool = False
    validate_every_steps: Whole = Field(default=0, description="0: never")
    validate_before_start: bool = False


class Engine(StrEnum):
    """What generates the responses."""

    VLLM = "VLLM"
    SGLANG = "SGLang"
    TRANSFORMERS = "Transformers"


class Rollout(Model):
    """Generation."""

    engine: Engine | None = Field(default=None, description="Default: VLLM, but Transformers on CPU")
    samples_per_prompt: Count = 1
    temperature: NonNegative = 1.0
    top_p: Fraction = 1.0
    tensor_parallel_size: Count = 1
    memory_fraction: Fraction = Field(default=0.5, description="Share of the device's memory for the engine")
    max_sequences: Count = Field(default=256, description="Sequences generated at the same time on an engine")
    max_batched_tokens: Count | None = None
    enforce_eager: bool = Field(default=True, description="No graph capture: starts 30 s earlier, decodes slower")
