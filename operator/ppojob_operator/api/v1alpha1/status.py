"""`PPOJob.status`: what was observed and decided. Observed figures are strings, since JSON has no NaN."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from ppojob_contract.outcomes import ExitClass
from ppojob_contract.parameters import Parameter
from ppojob_operator.api.v1alpha1.base import StatusModel, list_map
from ppojob_operator.api.v1alpha1.data_status import DataPlanStatus
from ppojob_operator.api.v1alpha1.guardrails import GuardrailAction, Preset
from ppojob_operator.api.v1alpha1.stage_status import FailedAfterTraining, StageName, StageStatus


class Phase(StrEnum):
    """One word for a person; derived, never an input."""

    PENDING = "Pending"
    PROVISIONING = "Provisioning"
    RUNNING = "Running"
    ROLLING_BACK = "RollingBack"
    RESTARTING = "Restarting"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    INVALID = "Invalid"


class ConditionStatus(StrEnum):
    """As of any Kubernetes condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class ConditionType(StrEnum):
    """What the conditions are about."""

    ACCEPTED = "Accepted"
    CLUSTER_READY = "ClusterReady"
    HEALTHY = "Healthy"
    COMPLETE = "Complete"
    FAILED = "Failed"
    ROLLBACK_READY = "RollbackReady"


class StatusCondition(StatusModel):
    """`metav1.Condition`."""

    type: ConditionType
    status: ConditionStatus
    reason: Annotated[str, Field(max_length=1024)]
    message: Annotated[str, Field(max_length=32768)] = ""
    last_transition_time: datetime
    observed_generation: int = 0


class ResumePoint(StatusModel):
    """A checkpoint by the attempt that wrote it and its step."""

    attempt: int
    step: int


class ParameterValue(StatusModel):
    """A parameter's absolute value in force."""

    parameter: Parameter
    value: float
    spec_value: float = Field(description="The spec's value when adjusted; editing the spec drops the adjustment")


class IntentKind(StrEnum):
    """Why an attempt is being ended."""

    ROLLBACK = "Rollback"
    RESTART = "Restart"
    SPEC_CHANGE = "SpecChange"
    SUSPEND = "Suspend"
    FAIL = "Fail"
    COMPLETE = "Complete"


class RollbackPath(StrEnum):
    """How a rollback is carried out."""

    HOT = "Hot"
    COLD = "Cold"


class Intent(StatusModel):
    """What is being done, recorded before the first effect: a crash repeats it and never doubles it."""

    id: str = Field(description="Also the id of the command that the trainer gets")
    kind: IntentKind
    since: datetime
    reason: str = Field(description="Machine-readable, CamelCase")
    message: Annotated[str, Field(max_length=4096)] = ""
    attempt: int = Field(description="The attempt being ended; 0 where none had begun")
    step: int = Field(default=0, description="Last step when it was decided")
    guardrail: str | None = None
    replace_cluster: bool = False
    path: RollbackPath | None = Field(default=None, description="Hot: in the running trainer; Cold: by a new start")
    commanded: datetime | None = Field(default=None, description="When the running trainer was told to roll back")
    stop_requested: datetime | None = Field(default=None, description="When the trainer was first asked to stop")
    next_attempt: int | None = None
    resume: ResumePoint | None = None
    adjustments: Annotated[list[ParameterValue], Field(max_length=8)] = Field(default_factory=list)
    data: DataPlanStatus = Field(default_factory=DataPlanStatus, description="Of the next attempt, where a rollback")


class ResumeSource(StatusModel):
    """A checkpoint that is not the job's own."""

    path: Annotated[str, Field(max_length=2048)] = Field(description="In the trainer's pods")
    step: int
    weights_only: bool = False
    job: str | None = Field(default=None, description="The PPOJob that made it, where the spec named one")


class AttemptStatus(StatusModel):
    """The attempt that runs, or ran last."""

    number: int
    cluster: int = Field(description="Number of the RayCluster it runs on")
    head_uid: str | None = Field(default=None, description="The head pod it was started on")
    cause: IntentKind | None = Field(default=None, description="What the attempt before it was ended for")
    resume: ResumePoint | None = None
    source: ResumeSource | None = Field(default=None, description="What the job began from, by resumeFrom")
    training_hash: str = ""
    data_hash: str = Field(default="", description="Of what the order of the prompts follows from")
    data: DataPlanStatus = Field(default_factory=DataPlanStatus, description="Which prompts it gets")
    dataset_digest: Annotated[str, Field(max_length=64)] | None = Field(
        default=None, description="SHA-256 of the content of its data files, once the trainer has read them"
    )
    data_anew: bool = Field(
        default=False, description="The order of its data began anew: it is not that of the checkpoint it began from"
    )
    created: datetime
    job_uid: str | None = Field(default=None, description="Its RayJob, once seen")
    carried_by: int | None = Field(
        default=None, description="Attempt that the RayJob was made for, where a rollback in place led to this one"
    )
    first_step: datetime | None = Field(default=None, description="When its first step was seen")
    last_step: int | None = None
    driver_ended: datetime | None = Field(default=None, description="When its RayJob was first seen ended")
    ended: datetime | None = None
    result: Annotated[str, Field(max_length=64)] | None = Field(
        default=None, description="Its exit class, or why it was ended"
    )
    message: Annotated[str, Field(max_length=1024)] = ""

    @property
    def carrier(self) -> int:
        """The attempt whose number its RayJob's name has."""
        return self.carried_by or self.number

    @property
    def path(self) -> RollbackPath:
        """How it was begun."""
        return RollbackPath.COLD if self.carried_by is None else RollbackPath.HOT


class Progress(StatusModel):
    """How far the run is."""

    step: int = 0
    total_steps: int = 0
    percent: int = 0
    last_step_time: datetime | None = None
    estimated_completion: datetime | None = None


class Goodput(StatusModel):
    """How much of what was trained and held was worth it: useful steps of all steps, training time of time held."""

    steps: int = Field(default=0, description="Steps finished by all attempts")
    useful_steps: int = Field(default=0, description="Steps that led to the weights of now")
    training_seconds: float = Field(default=0.0, description="Time spent in finished steps, of all attempts")
    held_seconds: float = Field(default=0.0, description="Time during which a RayCluster existed, up to heldSince")
    held_since: datetime | None = Field(default=None, description="Since when the present RayCluster exists")


class Metrics(StatusModel):
    """Figures of the last step, 6 significant digits."""

    reward_mean: str | None = None
    reward_std: str | None = None
    kl: str | None = None
    gradient_norm: str | None = None
    response_length_mean: str | None = None
    tokens_per_second: str | None = None


class CheckpointPhase(StrEnum):
    """A checkpoint's way to trust."""

    SAVING = "Saving"
    COMPLETE = "Complete"
    CONFIRMED = "Confirmed"
    SUSPECT = "Suspect"
    ABANDONED = "Abandoned"
    UNUSABLE = "Unusable"


class CheckpointStatus(StatusModel):
    """One checkpoint on the claim."""

    attempt: int
    step: int
    phase: CheckpointPhase
    size_bytes: int = 0
    message: Annotated[str, Field(max_length=1024)] = ""


class BestCheckpoint(ResumePoint):
    """A Confirmed checkpoint and what its validation said."""

    value: str = Field(description="Of spec.checkpoints.keepBest.metric")


class Checkpoints(StatusModel):
    """The newest checkpoints; the claim has them all."""

    confirmed: ResumePoint | None = None
    best: BestCheckpoint | None = Field(default=None, description="By spec.checkpoints.keepBest")
    items: Annotated[list[CheckpointStatus], Field(max_length=50)] = Field(default_factory=list)


class Verdict(StrEnum):
    """What a guardrail says; no data is never a breach."""

    HEALTHY = "Healthy"
    BREACHED = "Breached"
    INCONCLUSIVE = "Inconclusive"
    WAITING = "Waiting"


class MeasuredCondition(StatusModel):
    """A condition at a guardrail's last observation."""

    figure: Annotated[str, Field(max_length=1024)] = Field(description="Metric or query")
    value: str | None = None
    bad: Annotated[str, Field(max_length=256)] = Field(default="", description="Its bound in words")


class GuardrailStatus(StatusModel):
    """A guardrail's verdict on the current attempt. A preset of several rules has an entry for each."""

    name: str
    preset: Preset | None = None
    action: GuardrailAction = GuardrailAction.WARN
    dry_run: bool = False
    verdict: Verdict
    failing: int = Field(default=0, description="Bad ones among the newest observations")
    bound: Annotated[str, Field(max_length=256)] = Field(default="", description="How many bad ones make a breach")
    conditions: Annotated[list[MeasuredCondition], Field(max_length=8)] = Field(default_factory=list)
    step: int | None = Field(default=None, description="Of the last observation")
    message: Annotated[str, Field(max_length=1024)] = ""


class RewardFailure(StatusModel):
    """The first failure of a reward term in an attempt."""

    term: str
    attempt: int
    step: int
    message: Annotated[str, Field(max_length=1024)] = Field(description="The error and where the code raised it")


class PausedBy(StatusModel):
    """Why the run was paused without a person, from the pause until the next attempt."""

    guardrail: str
    reason: Annotated[str, Field(max_length=64)]
    message: Annotated[str, Field(max_length=4096)] = ""
    attempt: int = Field(description="The one that was paused; what it breached is not acted on again")
    step: int
    since: datetime
    released: bool = Field(default=False, description="A person has gone on, by spec.suspend or spec.restart")


class RollbackMark(StatusModel):
    """The last rollback."""

    guardrail: str
    target: ResumePoint


class EvaluatedThrough(StatusModel):
    """Last row that was judged."""

    attempt: int
    step: int


class PPOJobStatus(StatusModel):
    """Written on every transition, otherwise at most every 30 seconds."""

    observed_generation: int = 0
    observed_restart_nonce: str | None = Field(default=None, description="The last spec.restart that was fulfilled")
    phase: Phase = Phase.PENDING
    stage: StageName | None = Field(default=None, description="Part of the job that runs, or ran last")
    message: Annotated[str, Field(max_length=4096)] = ""
    conditions: Annotated[list[StatusCondition], Field(max_length=16, json_schema_extra=list_map("type"))] = Field(
        default_factory=list
    )
    accepted_revision: str | None = Field(default=None, description="ControllerRevision of the spec that governs")
    intent: Intent | None = None
    cluster_number: int = 0
    cluster_uid: str | None = Field(default=None, description="The RayCluster of that number, once seen")
    cluster_hash: str = ""
    attempt: AttemptStatus | None = None
    attempts: Annotated[list[AttemptStatus], Field(max_length=20)] = Field(
        default_factory=list, description="Attempts that ended, oldest first"
    )
    stages: Annotated[list[StageStatus], Field(max_length=8, json_schema_extra=list_map("name"))] = Field(
        default_factory=list, description="What ran beside training, in order"
    )
    adjustments: Annotated[list[ParameterValue], Field(max_length=8)] = Field(default_factory=list)
    evaluated_through: EvaluatedThrough | None = None
    progress: Progress | None = None
    metrics: Metrics | None = None
    goodput: Goodput = Field(default_factory=Goodput)
    checkpoints: Checkpoints = Field(default_factory=Checkpoints)
    guardrails: Annotated[list[GuardrailStatus], Field(max_length=128, json_schema_extra=list_map("name"))] = Field(
        default_factory=list
    )
    reward_failures: Annotated[list[RewardFailure], Field(max_length=16, json_schema_extra=list_map("term"))] = Field(
        default_factory=list, description="Of the current attempt"
    )
    paused_by: PausedBy | None = None
    last_rollback: RollbackMark | None = None
    rollbacks: int = Field(default=0, description="Rollbacks of this job")
    rollbacks_since_progress: int = Field(default=0, description="What rollback.limit is compared with")
    rollback_mark: int = Field(
        default=0, description="Step of the farthest breach; a later Confirmed one resets the count"
    )
    restarts: int = Field(default=0, description="Restarts after failures")
    restarts_since_progress: int = Field(default=0, description="What failurePolicy.maxRestarts is compared with")
    restart_mark: int = Field(default=0, description="Step at the last restart; a later one resets the count")
    failed_after_training: FailedAfterTraining | None = None
    outcome: ExitClass | None = None
    finished: datetime | None = None
    storage_path: Annotated[str, Field(max_length=2048)] | None = Field(
        default=None, description="The job's folder on its claim"
    )
