"""`PPOJob.spec.reward.terms[].training`: a Bradley-Terry reward model, trained before PPO begins."""

from typing import Annotated

from pydantic import ConfigDict, Field

from ppojob_operator.api.v1alpha1.base import Count, Model, Path, Positive, rules
from ppojob_operator.api.v1alpha1.reward_scoring import RewardScoring
from ppojob_operator.api.v1alpha1.training import Lora


class RewardTraining(Model):
    """By TRL's RewardTrainer: the loss is -log sigmoid(r_chosen - r_rejected)."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "(has(self.train) && size(self.train) > 0) == (has(self.validation) && size(self.validation) > 0)",
                "set train and validation, or neither: the prepared pairs are taken then",
            ),
        )
    )
    model: Path = Field(description="Language model that the reward model starts from")
    train: Annotated[list[Path], Field(max_length=64)] = Field(
        default_factory=list,
        description="Parquet files of pairs (prompt, chosen, rejected); default: the prepared ones",
    )
    validation: Annotated[list[Path], Field(max_length=64)] = Field(
        default_factory=list, description="Held-out pairs; default: the prepared ones"
    )
    lora: Lora | None = Field(default=None, description="Train low-rank adapters, merged in the end")
    max_length: Count = Field(default=1024, description="Tokens of prompt and response; longer pairs are left out")
    epochs: Count = Field(default=1, description="Times that all pairs are seen")
    max_steps: Count | None = Field(default=None, description="Optimizer steps, instead of epochs")
    batch_size: Count = Field(default=64, description="Pairs of an optimizer step, on all devices together")
    micro_batch_size_per_device: Count = Field(default=8, description="Pairs in one forward and backward pass")
    learning_rate: Positive = Field(default=1e-5, description="Peak; it falls linearly to 0")
    save_steps: Count = Field(
        default=100, description="Optimizer steps between checkpoints, to go on from after a kill"
    )
    scoring: RewardScoring = Field(
        default_factory=RewardScoring, description="How the trained model scores answers in PPO"
    )
    minimum_accuracy: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None, description="Share of held-out pairs ranked right, below which the job fails before PPO begins"
    )
