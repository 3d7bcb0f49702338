"""`PPOJob.status.stages`: what ran beside training."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from ppojob_contract.stages import MAX_FIGURES
from ppojob_operator.api.v1alpha1.base import StatusModel


class StageName(StrEnum):
    """Parts of a job, in their order."""

    TRIAL = "Trial"
    PREPARE = "Prepare"
    REWARD = "Reward"
    TRAIN = "Train"
    EVALUATE = "Evaluate"
    EXPORT = "Export"


class StagePhase(StrEnum):
    """How far a stage is."""

    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"


class FailedAfterTraining(StatusModel):
    """What was asked for when a stage after training failed for good: something else takes it up again."""

    evaluation: Annotated[str, Field(max_length=64)] = Field(description="Hash of spec.evaluation, but for its gate")
    asked: Annotated[str, Field(max_length=64)] = Field(
        description="Hash of spec.evaluation, spec.export and spec.restart"
    )


class StageStatus(StatusModel):
    """The newest run of a stage."""

    name: StageName
    phase: StagePhase
    run: int = Field(default=1, description="Number of its RayJob")
    key: str = Field(default="", description="Of what its output follows from: the same key is never run again")
    failures: int = Field(default=0, description="Runs of this key that ended without an output")
    cluster: int = Field(default=0, description="Number of the RayCluster it runs on")
    head_uid: str | None = Field(default=None, description="The head pod it was started on")
    job_uid: str | None = Field(default=None, description="Its RayJob, once seen")
    driver_ended: datetime | None = Field(default=None, description="When its RayJob was first seen ended")
    created: datetime
    ended: datetime | None = None
    result: Annotated[str, Field(max_length=64)] | None = Field(default=None, description="Exit class of the last run")
    message: Annotated[str, Field(max_length=1024)] = ""
    output: Annotated[str, Field(max_length=2048)] | None = Field(
        default=None, description="Folder of what it made, in the trainer's pods"
    )
    figures: Annotated[dict[str, str], Field(max_length=MAX_FIGURES)] = Field(
        default_factory=dict, description="What it found out, 6 significant digits"
    )
