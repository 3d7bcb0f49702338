"""What the controller needs of the world. Adapters implement these; tests have fakes of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, Self

from ppojob_contract.mailbox import CheckpointRef, Claimant, Command
from ppojob_contract.protocol import Deletion, State, Steps
from ppojob_operator.api.v1alpha1.resource import PPOJob
from ppojob_operator.domain.events import Event
from ppojob_operator.domain.observation import RayClusterView, RayJobView


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """A PPOJob of one life: a re-created one has another UID and another worker."""

    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, job: PPOJob) -> Self:
        return cls(job.namespace, job.name, job.uid)

    @property
    def log_fields(self) -> dict[str, str]:
        """What each line about the job carries."""
        return {"namespace": self.namespace, "ppojob": self.name}


class Cluster(Protocol):
    """The API server. Every method raises `ClusterUnavailable` when it cannot do its work now."""

    async def get_job(self, key: Key) -> PPOJob | None:
        """The PPOJob, or None when it is gone (or is another one of the same name)."""

    async def find_job(self, namespace: str, name: str) -> PPOJob | None:
        """Whatever PPOJob has the name now."""

    async def write_status(self, job: PPOJob, status: dict[str, Any]) -> PPOJob:
        """Replaces the status. Raises `Conflict` when the object changed since `job` was read."""

    async def delete_job(self, job: PPOJob) -> None: ...

    async def list_clusters(self, key: Key) -> Sequence[RayClusterView]:
        """RayClusters that the PPOJob owns, with their pods."""

    async def leftover_pods(self, key: Key) -> Sequence[str]:
        """Names of pods that may still run although their RayCluster is gone (deleted by hand, in the background)."""

    async def list_ray_jobs(self, key: Key) -> Sequence[RayJobView]:
        """RayJobs that the PPOJob owns."""

    async def create(self, manifest: dict[str, Any]) -> None:
        """Creates an object; one that is there already and has the same controlling owner UID is done.

        Raises `Conflict` where another's object has the name.
        """

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> None:
        """Deletes a RayCluster or RayJob of exactly this UID; already gone is done."""

    async def claim_exists(self, namespace: str, name: str) -> bool: ...

    async def read_token(self, namespace: str, secret_name: str) -> str | None:
        """The monitor's bearer token, or None where the Secret is not there."""

    async def save_revision(self, job: PPOJob, name: str, spec: dict[str, Any]) -> None:
        """Keeps an accepted spec as a ControllerRevision that the PPOJob owns."""

    async def load_revision(self, namespace: str, name: str) -> dict[str, Any] | None: ...

    async def emit(self, job: PPOJob, event: Event) -> None:
        """Records an event, best effort: a lost event never stops a decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A job's monitor: the observed head pod's address, and what proves whose it is and who asks."""

    host: str
    key: Key
    token: str | None = field(default=None, repr=False)
    """Needed for what changes something."""


class Monitor(Protocol):
    """The monitors in the head pods.

    Methods raise `MonitorUnavailable`, also where another job's monitor answers (a pod IP is reused at once).
    """

    async def state(self, endpoint: Endpoint) -> State: ...

    async def steps(
        self, endpoint: Endpoint, attempt: int, after: int, *, metrics: Sequence[str], wait_seconds: float = 0.0
    ) -> Steps:
        """Rows behind the first `after`; waits up to `wait_seconds` for one."""

    async def put_command(self, endpoint: Endpoint, attempt: int, command: Command) -> Command:
        """The command in the mailbox afterwards: this one, or the one that was there first.

        Raises `MonitorRefused` where the attempt has ended.
        """

    async def revoke(self, endpoint: Endpoint, attempt: int) -> Claimant:
        """Whoever owns the mailbox's command now."""

    async def put_confirmed(self, endpoint: Endpoint, checkpoints: Sequence[CheckpointRef]) -> None: ...

    async def delete_checkpoints(self, endpoint: Endpoint, checkpoints: Sequence[CheckpointRef]) -> Deletion:
        """Deletes those that a run cannot need, by what the monitor sees on the disk; says which it refused."""


class Metrics(Protocol):
    """Prometheus. Methods raise `QueryUnavailable`, or `QueryRefused` where the query is at fault."""

    @property
    def interval_seconds(self) -> float:
        """The scrape interval: no query is finer than that."""

    async def values(self, query: str, first: int, last: int) -> Mapping[int, float]:
        """The query at each multiple of the interval from the `first` to the `last`, by its number.

        Left out where it has no value, several, or NaN then, and where its newest sample is older than two intervals.
        """


class Clock(Protocol):
    """The time, aware of its zone (UTC)."""

    def __call__(self) -> datetime: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """A Lease's content."""

    holder: str
    """Identity; empty when it was released."""
    duration_seconds: float
    acquired: str
    renewed: str
    transitions: int = 0
    version: str | None = None
    """Of the object as it was read; None where there is none yet."""


class LeaseStore(Protocol):
    """Where the Lease is kept. Methods raise `ClusterUnavailable`."""

    async def read(self) -> LeaseRecord | None: ...

    async def write(self, record: LeaseRecord) -> LeaseRecord:
        """Creates it (`version` None) or replaces exactly that version; raises `Conflict` where it is another."""
