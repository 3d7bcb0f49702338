"""`PPOJob.spec.checkpoints`: when to save, when to trust, what to keep."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from ppojob_operator.api.v1alpha1.base import Count, Model


class Goal(StrEnum):
    """Which values of a figure are the good ones."""

    MAXIMIZE = "Maximize"
    MINIMIZE = "Minimize"


class KeepBest(Model):
    """Confirmed checkpoints that stay for what a validation said of them."""

    metric: Annotated[str, Field(min_length=1, max_length=128)] = Field(
        default="validationReward",
        description="A validation figure: validationReward, or one of verl's keys that begin with val-",
    )
    goal: Goal = Field(default=Goal.MAXIMIZE, description="Whether more of it is better or less")
    count: Annotated[int, Field(ge=1, le=20)] = Field(default=1, description="How many stay")


class Checkpoints(Model):
    """When to save, when to trust and what to keep."""

    every_steps: Count = Field(default=10, description="Steps between saves; the last step is always saved")
    confirm_steps: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=5, description="Clean steps before and after a checkpoint that make it Confirmed"
    )
    keep_last: Annotated[int, Field(ge=2, le=1000)] = Field(
        default=3,
        description="Newest Confirmed checkpoints to keep; those not yet proven come on top (docs/checkpoints.md)",
    )
    keep_best: KeepBest | None = Field(default=None, description="Confirmed ones to keep beside the newest")
