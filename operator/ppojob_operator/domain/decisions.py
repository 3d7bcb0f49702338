"""What can be decided: a closed union. Each is recorded in the status before it is acted on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from ppojob_contract.mailbox import Command
from ppojob_contract.outcomes import ExitClass
from ppojob_contract.stages import Stage
from ppojob_operator.api.v1alpha1.data_status import DataPlanStatus
from ppojob_operator.api.v1alpha1.resource import PPOJob
from ppojob_operator.api.v1alpha1.stage_status import StageName, StagePhase
from ppojob_operator.api.v1alpha1.status import Intent, ParameterValue, ResumePoint, ResumeSource

POLL = timedelta(seconds=10)

CLAIM_NOT_FOUND = "ClaimNotFound"
"""Reason of a wait, a condition and an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing to do now."""

    reason: str
    message: str = ""
    requeue: timedelta = POLL


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """The spec is not acceptable and no earlier one governs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Records an intent; its first effect comes with the next pass."""

    intent: Intent


@dataclass(frozen=True, slots=True, kw_only=True)
class AskToStop:
    """Puts a Stop into the trainer's mailbox."""

    attempt: int
    command_id: str
    save: bool
    """Whether a checkpoint of the last step is wanted (not of a run that went bad)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollBackInPlace:
    """Puts a Rollback into the trainer's mailbox."""

    attempt: int
    command: Command


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoke:
    """Takes the command back, unless the trainer has claimed it meanwhile."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GoCold:
    """The rollback goes on with a new start of the trainer."""

    message: str
    number_used: bool
    """The trainer has begun the next attempt, or may have: its number is not used again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchAttempt:
    """The trainer runs the next attempt already."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveRayJob:
    """Deletes an attempt's RayJob."""

    attempt: int
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveCluster:
    """Deletes a RayCluster, which is not gone before its pods are."""

    number: int
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateCluster:
    """Creates a RayCluster (and the monitor's token)."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartAttempt:
    """Creates an attempt's RayJob; done again with the same values it has no further effect."""

    number: int
    cluster: int
    head_uid: str
    resume: ResumePoint | None
    source: ResumeSource | None = None
    """What it begins from where the job has no checkpoint of its own."""
    adjustments: tuple[ParameterValue, ...] = ()
    data: DataPlanStatus = field(default_factory=DataPlanStatus)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseAttempt:
    """The attempt's RayJob is gone: its end goes into the history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartStage:
    """Creates a stage's RayJob; done again with the same values it has no further effect."""

    stage: Stage
    run: int
    key: str
    settings: Mapping[str, Any]
    cluster: int
    head_uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseStage:
    """A stage's run is over; its RayJob is deleted next."""

    stage: StageName
    key: str
    phase: StagePhase
    result: str
    message: str
    output: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    counts: bool = True
    """Whether a run that failed counts as a failure of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTrial:
    """Creates the trial, a PPOJob of its own."""

    run: int
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTrial:
    """Deletes a trial that runs and is not wanted now."""

    trial: PPOJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """The intent is done and nothing runs: suspended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The job has ended."""

    succeeded: bool
    outcome: ExitClass
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob:
    """The time to live after the end is over."""


Decision = (
    Wait
    | Refuse
    | Begin
    | AskToStop
    | RollBackInPlace
    | Revoke
    | GoCold
    | SwitchAttempt
    | RemoveRayJob
    | RemoveCluster
    | CreateCluster
    | StartAttempt
    | CloseAttempt
    | StartStage
    | CloseStage
    | StartTrial
    | RemoveTrial
    | Settle
    | Finish
    | DeleteJob
)
