"""Everything a decision is made from, read in one pass. The clock is inside: `decide` asks nobody."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from ppojob_contract.protocol import State, StepRow
from ppojob_contract.stages import Stage
from ppojob_operator.api.v1alpha1.resource import PPOJob
from ppojob_operator.domain.guardrails.queries import Queries
from ppojob_operator.domain.job import AcceptedJob


class Trouble(StrEnum):
    """What keeps pods from running that somebody has to mend."""

    PODS_REFUSED = "PodsRefused"
    UNSCHEDULABLE = "Unschedulable"
    IMAGE_NOT_PULLED = "ImageNotPulled"
    CONTAINER_NOT_STARTED = "ContainerNotStarted"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadPod:
    """The pod with Ray's GCS, the driver and the monitor."""

    name: str
    uid: str
    ip: str | None
    ready: bool
    failed: bool
    """Its phase is Failed, or the Ray container has ended."""
    restarts: int
    """Of the Ray container; any restart means an empty GCS."""
    message: str = ""
    """Why it is not running (unschedulable, image cannot be pulled ...), for a person."""
    trouble: Trouble | None = None
    deleting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RayClusterView:
    """One RayCluster of the job, with what is known of its pods."""

    name: str
    uid: str
    number: int
    deleting: bool
    head: HeadPod | None
    workers_ready: int
    workers_desired: int
    message: str = ""
    trouble: Trouble | None = None
    """Of the workers, or of all pods."""
    deleting_since: datetime | None = None

    @property
    def ready(self) -> bool:
        return (
            not self.deleting
            and self.head is not None
            and self.head.ready
            and not self.head.failed
            and self.workers_ready >= self.workers_desired
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RayJobView:
    """One RayJob of the job. Its status is a hint only: liveness comes from the pod and the monitor."""

    name: str
    uid: str
    attempt: int
    """0 where it is no attempt's."""
    deleting: bool
    job_status: str
    """KubeRay's `jobStatus`: '', PENDING, RUNNING, STOPPED, SUCCEEDED, FAILED."""
    deployment_status: str
    """KubeRay's `jobDeploymentStatus`; ValidationFailed is permanent."""
    message: str = ""
    deleting_since: datetime | None = None
    stage: Stage | None = None
    run: int = 0
    """Of the stage."""

    @property
    def ended(self) -> bool:
        return self.job_status in {"STOPPED", "SUCCEEDED", "FAILED"} or self.deployment_status in {
            "Failed",
            "Complete",
            "ValidationFailed",
        }


class Reach(StrEnum):
    """Whether the job's monitor answered."""

    OK = "OK"
    NO_POD = "NoPod"
    UNREACHABLE = "Unreachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorView:
    """The monitor's answers, or why there are none."""

    reach: Reach
    state: State | None = None
    rows: Mapping[int, tuple[StepRow, ...]] = field(default_factory=dict)
    """Journal rows by attempt, complete from the first row on for every attempt of the lineage that has any."""
    message: str = ""
    silent_seconds: float = 0.0
    """For how long this process has not reached it; 0 when it answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a spec was refused: the field, and what to do."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One look at one job."""

    now: datetime
    job: PPOJob
    accepted: AcceptedJob | None
    """The spec that governs; None where none was ever accepted."""
    problems: tuple[Problem, ...]
    """What is wrong with the current spec; empty where it is the accepted one."""
    warnings: tuple[Problem, ...]
    clusters: tuple[RayClusterView, ...]
    jobs: tuple[RayJobView, ...]
    monitor: MonitorView
    source_job: PPOJob | None = None
    """The PPOJob that `spec.checkpoints.resumeFrom` names, as long as it matters and is there."""
    baseline_job: PPOJob | None = None
    """The PPOJob that `spec.evaluation.baseline` names, once training is done."""
    trial_job: PPOJob | None = None
    """The job's trial, as long as it matters and is there."""
    queries: Queries | None = None
    """What Prometheus has said of guardrails' queries; None where there is none to ask."""
    storage_bound: bool | None = None
    """Whether the claim exists (None: not looked at)."""
    leftover_pods: tuple[str, ...] = ()
    """Pods of the job that may still run although their RayCluster is gone."""

    def cluster(self, number: int) -> RayClusterView | None:
        return next((item for item in self.clusters if item.number == number), None)

    def ray_job(self, attempt: int) -> RayJobView | None:
        return next((item for item in self.jobs if item.attempt == attempt), None)

    def stage_job(self, stage: Stage, run: int) -> RayJobView | None:
        return next((item for item in self.jobs if item.stage is stage and item.run == run), None)

    def ready_head(self, number: int) -> HeadPod | None:
        """The head pod of that cluster, where the cluster is ready."""
        cluster = self.cluster(number)
        return cluster.head if cluster is not None and cluster.ready else None


SILENT_SECONDS = 15.0
"""A monitor that has not answered for so long makes verdicts Inconclusive; shorter gaps are ordinary."""


def silent(monitor: MonitorView) -> bool:
    """Whether nothing is known of the training for long enough to say so."""
    return monitor.reach is not Reach.OK and monitor.silent_seconds >= SILENT_SECONDS
