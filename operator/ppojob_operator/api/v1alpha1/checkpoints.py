"""`PPOJob.spec.checkpoints` and `.restart`: when to save, when to trust, what to keep, where to go on from."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from ppojob_operator.api.v1alpha1.base import Count, Model, ObjectName, Whole, rules

VerlFolder = Annotated[str, Field(max_length=1024, pattern=r"^(/[A-Za-z0-9][-._A-Za-z0-9]*)*/global_step_[0-9]+$")]


class Restart(Model):
    """Another attempt, because a person wants one."""

    nonce: Annotated[str, Field(min_length=1, max_length=63)] = Field(
        description="Another value than before stops the attempt, which saves, and begins the next"
    )
    from_step: Whole | None = Field(
        default=None, description="From the checkpoint of exactly this step; default: the newest that can be trusted"
    )


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


class ResumeFrom(Model):
    """A checkpoint that a new job begins from; of the same model, on the same claim."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("has(self.job) != has(self.path)", "set exactly one of job and path"),
            ("!has(self.step) || has(self.job)", "step goes with job; a path names its step", ".step"),
        )
    )
    job: ObjectName | None = Field(default=None, description="PPOJob of the same namespace: its newest Confirmed one")
    step: Whole | None = Field(default=None, description="Of that job, exactly this step's, Confirmed or not")
    path: VerlFolder | None = Field(
        default=None,
        description="Folder global_step_N in the trainer's pods (the claim is at /ppojob/storage), of a PPOJob or verl",
    )
    weights_only: bool = Field(default=False, description="Only weights: steps, optimizer and data begin anew")


class Verify(StrEnum):
    """What a checkpoint's files are compared by before they are loaded."""

    SIZES = "Sizes"
    CHECKSUMS = "Checksums"


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
    resume_from: ResumeFrom | None = Field(
        default=None, description="What the job begins from; without effect once it has begun"
    )
    keep_best: KeepBest | None = Field(default=None, description="Confirmed ones to keep beside the newest")
    verify: Verify = Field(
        default=Verify.SIZES,
        description="Files above 1 MiB are compared by size, or by SHA-256 too: it reads each once more at every save "
        "and before every load. Of checkpoints that attempts started from now on save",
    )
