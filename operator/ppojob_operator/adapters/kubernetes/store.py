"""The watched objects, in memory: a pass over a job costs no request while nothing changes.

Watch events and the answers to our own writes fill it; a full list at the start and every few minutes corrects it,
since a watch that had to start anew does not tell what was deleted meanwhile. It may be behind the API server, never
behind our own writes. That is safe: a status is replaced only at the version it was read at, deletes carry a UID,
creations that are there already are done.

Resource versions are compared as numbers, which the API's conventions allow since Kubernetes 1.35 and which etcd's
always were.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ppojob_operator.adapters.kubernetes import views
from ppojob_operator.adapters.kubernetes.kinds import POD, PPO_JOB, RAY_CLUSTER, RAY_JOB, Kind
from ppojob_operator.adapters.kubernetes.watches import Watches
from ppojob_operator.api.v1alpha1.resource import PPOJob
from ppojob_operator.domain.observation import RayClusterView, RayJobView
from ppojob_operator.ports import Key

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """A job whose worker has something to look at."""

    key: Key
    gone: bool = False
    """The PPOJob itself was deleted."""


@dataclass(frozen=True, slots=True)
class _Entry:
    namespace: str
    version: int
    owner: str
    """UID of what the object belongs to: of the PPOJob, for pods of the RayCluster."""
    key: Key | None
    value: Any
    trigger: Any
    """What must differ to wake a worker."""


@dataclass(slots=True)
class _Shelf:
    """Entries of one kind by UID, found by owner."""

    entries: dict[str, _Entry] = field(default_factory=dict)
    owned: dict[str, set[str]] = field(default_factory=dict)
    of_job: dict[str, set[str]] = field(default_factory=dict)
    buried: set[str] = field(default_factory=set)
    """UIDs deleted since the last full list: a list that began earlier must not bring them back."""

    def put(self, uid: str, entry: _Entry) -> bool:
        """Whether that is worth a wake-up. Older versions than the known one change nothing."""
        known = self.entries.get(uid)
        if uid in self.buried or (known is not None and known.version >= entry.version):
            return False
        self.entries[uid] = entry
        self.owned.setdefault(entry.owner, set()).add(uid)
        if entry.key is not None:
            self.of_job.setdefault(entry.key.uid, set()).add(uid)
        return known is None or known.trigger != entry.trigger

    def remove(self, uid: str) -> _Entry | None:
        self.buried.add(uid)
        entry = self.entries.pop(uid, None)
        if entry is not None:
            _discard(self.owned, entry.owner, uid)
            if entry.key is not None:
                _discard(self.of_job, entry.key.uid, uid)
        return entry

    def of(self, owner: str) -> list[_Entry]:
        return [self.entries[uid] for uid in sorted(self.owned.get(owner, ()))]


def _discard(index: dict[str, set[str]], name: str, uid: str) -> None:
    index[name].discard(uid)
    if not index[name]:
        del index[name]


class Store:
    """What is known of PPOJobs, RayClusters, RayJobs and Ray pods. Not filled (`synced` False) at first."""

    def __init__(self, watches: Watches | None = None) -> None:
        self.synced = False
        self.watches = watches or Watches()
        self._shelves: dict[str, _Shelf] = {kind.plural: _Shelf() for kind in (PPO_JOB, RAY_CLUSTER, RAY_JOB, POD)}
        self._parse: dict[str, Callable[[Body], _Entry | None]] = {
            PPO_JOB.plural: _job_entry,
            RAY_CLUSTER.plural: _cluster_entry,
            RAY_JOB.plural: _ray_job_entry,
            POD.plural: self._pod_entry,
        }

    def put(self, kind: Kind, body: Body) -> Change | None:
        """Takes an object as it is now; says whose worker to wake, if any."""
        entry = self._parse[kind.plural](body)
        if entry is None or not self._shelves[kind.plural].put(body["metadata"]["uid"], entry):
            return None
        return Change(entry.key) if entry.key else None

    def remove(self, kind: Kind, uid: str) -> Change | None:
        """Forgets an object that is gone."""
        entry = self._shelves[kind.plural].remove(uid)
        return Change(entry.key, gone=kind is PPO_JOB) if entry and entry.key else None

    def replace(self, kind: Kind, namespace: str | None, bodies: Iterable[Body], version: int) -> list[Change]:
        """Takes a full list (of one namespace, or of all) that the API server answered at `version`."""
        shelf, changes, listed = self._shelves[kind.plural], [], set()
        for body in bodies:
            listed.add(body["metadata"]["uid"])
            changes.append(self.put(kind, body))
        in_scope = [item for item in shelf.entries.items() if namespace in {None, item[1].namespace}]
        missing = [uid for uid, entry in in_scope if uid not in listed and entry.version <= version]
        changes += [self.remove(kind, uid) for uid in missing]
        shelf.buried.clear()
        return [change for change in changes if change is not None]

    def job(self, uid: str) -> PPOJob | None:
        """The PPOJob, parsed once for each version."""
        entries = self._shelves[PPO_JOB.plural].entries
        entry = entries.get(uid)
        if entry is None:
            return None
        if not isinstance(entry.value, PPOJob):
            entry = replace(entry, value=PPOJob.from_object(entry.value))
            entries[uid] = entry
        parsed: PPOJob = entry.value
        return parsed

    def clusters(self, uid: str) -> Sequence[RayClusterView]:
        pods = self._shelves[POD.plural]
        records: list[views.ClusterRecord] = [entry.value for entry in self._shelves[RAY_CLUSTER.plural].of(uid)]
        found = [views.cluster_view(record, [pod.value for pod in pods.of(record.uid)]) for record in records]
        return sorted(found, key=lambda view: view.number)

    def leftover_pods(self, uid: str) -> Sequence[str]:
        """Names of the job's pods that have not ended although their RayCluster is gone."""
        clusters, pods = self._shelves[RAY_CLUSTER.plural].entries, self._shelves[POD.plural]
        left = (pods.entries[pod] for pod in pods.of_job.get(uid, ()))
        return sorted(pod.value.name for pod in left if pod.owner not in clusters and not pod.value.ended)

    def ray_jobs(self, uid: str) -> Sequence[RayJobView]:
        found: list[RayJobView] = [entry.value for entry in self._shelves[RAY_JOB.plural].of(uid)]
        return sorted(found, key=lambda view: view.attempt)

    def _pod_entry(self, body: Body) -> _Entry | None:
        owner = views.controller(body)
        if owner is None or owner["kind"] != RAY_CLUSTER.name:
            return None
        cluster = self._shelves[RAY_CLUSTER.plural].entries.get(owner["uid"])
        record = views.pod_record(body)
        return _entry(body, owner["uid"], (cluster.key if cluster else None) or views.owning_job(body), record)


def _job_entry(body: Body) -> _Entry:
    metadata = body["metadata"]
    key = Key(metadata["namespace"], metadata["name"], metadata["uid"])
    # Our own status writes must wake nobody; a deletion changes the generation only where finalizers delay it.
    trigger = (metadata["generation"], "deletionTimestamp" in metadata)
    kept = {name: value for name, value in metadata.items() if name not in {"managedFields", "annotations"}}
    return _entry(body, key.uid, key, {**body, "metadata": kept}, trigger)


def _cluster_entry(body: Body) -> _Entry | None:
    return _owned(body, views.cluster_record(body))


def _ray_job_entry(body: Body) -> _Entry | None:
    return _owned(body, views.ray_job_view(body))


def _owned(body: Body, value: Any) -> _Entry | None:
    owner, key = views.controller(body), views.owning_job(body)
    return _entry(body, key.uid, key, value) if owner and owner["kind"] == PPO_JOB.name and key else None


def _entry(body: Body, owner: str, key: Key | None, value: Any, trigger: Any = None) -> _Entry:
    metadata = body["metadata"]
    version = int(metadata["resourceVersion"])
    return _Entry(metadata["namespace"], version, owner, key, value, value if trigger is None else trigger)
