"""Operator processes, each with its own store of the API server's objects, which may be behind."""

import copy
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from tests.support.drive import Drive
from tests.support.world import Crash, FakeClusterPort, World

from ppojob_operator.api.v1alpha1.resource import PPOJob
from ppojob_operator.controller.reconcile import AT_ONCE
from ppojob_operator.domain.observation import RayClusterView, RayJobView
from ppojob_operator.errors import ClusterUnavailable, Conflict, MonitorUnavailable
from ppojob_operator.ports import Key


class StoredClusterPort(FakeClusterPort):
    """Reads from a copy of the world while frozen, yet never behind its own writes: `adapters/kubernetes/store.py`."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.actual = world
        self._old: World | None = None

    def freeze(self) -> None:
        """From now on no watch brings anything."""
        old = copy.copy(self.actual)
        old.job = copy.deepcopy(old.job)
        old.clusters = copy.deepcopy(old.clusters)
        old.ray_jobs = copy.deepcopy(old.ray_jobs)
        old.terminating = dict(old.terminating)
        self._old = old

    def thaw(self) -> None:
        self._old = None

    @property
    def behind(self) -> bool:
        """Whether the PPOJob has changed since."""
        return self._old is not None and self._old.job != self.actual.job

    def _known(self) -> FakeClusterPort:
        return FakeClusterPort(self._old or self.actual)

    async def get_job(self, key: Key) -> PPOJob | None:
        return await self._known().get_job(key)

    async def list_clusters(self, key: Key) -> Sequence[RayClusterView]:
        return await self._known().list_clusters(key)

    async def leftover_pods(self, key: Key) -> Sequence[str]:
        return await self._known().leftover_pods(key)

    async def list_ray_jobs(self, key: Key) -> Sequence[RayJobView]:
        return await self._known().list_ray_jobs(key)

    async def write_status(self, job: PPOJob, status: dict[str, Any]) -> PPOJob:
        try:
            written = await super().write_status(job, status)
        except Conflict:
            self._read_job()
            raise
        self._read_job()
        return written

    def _read_job(self) -> None:
        if self._old is not None:
            self._old.job = copy.deepcopy(self.actual.job)

    async def create(self, manifest: dict[str, Any]) -> None:
        await super().create(manifest)
        name = manifest["metadata"]["name"]
        if self._old is not None and manifest["kind"] == "RayCluster":
            self._old.clusters[name] = copy.deepcopy(self.actual.clusters[name])
        if self._old is not None and manifest["kind"] == "RayJob":
            self._old.ray_jobs[name] = copy.deepcopy(self.actual.ray_jobs[name])

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> None:
        await super().delete(kind, namespace, name, uid)
        if self._old is None:
            return
        actual: dict[str, Any] = self.actual.clusters if kind == "RayCluster" else self.actual.ray_jobs
        stored: dict[str, Any] = self._old.clusters if kind == "RayCluster" else self._old.ray_jobs
        if name not in actual or actual[name].uid != uid:
            stored.pop(name, None)  # the API server said that it is gone


class Operator(Drive):
    """One process."""

    def __init__(self, world: World) -> None:
        super().__init__(world, port=StoredClusterPort)

    async def look(self) -> timedelta | None:
        """One pass; for how long it wants to wait."""
        try:
            return await self.reconciler.reconcile(self.world.key, self.course)
        except Crash:
            self.restart()
            return AT_ONCE
        except (Conflict, ClusterUnavailable, MonitorUnavailable):
            return timedelta(seconds=1)

    def restart(self) -> None:
        """Killed, and started again with nothing in memory."""
        self._start()

    @property
    def store(self) -> StoredClusterPort:
        port = self.reconciler.cluster
        assert isinstance(port, StoredClusterPort)
        return port
