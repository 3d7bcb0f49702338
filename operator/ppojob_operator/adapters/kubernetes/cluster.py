"""`ports.Cluster` on a Kubernetes API server."""

import asyncio
import base64
import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import Any, Final

from ppojob_contract.names import LABEL_JOB
from ppojob_operator.adapters.kubernetes import views
from ppojob_operator.adapters.kubernetes.api import Api
from ppojob_operator.adapters.kubernetes.events import EventRecorder
from ppojob_operator.adapters.kubernetes.kinds import (
    CLAIM,
    CREATABLE,
    DELETABLE,
    POD,
    PPO_JOB,
    RAY_CLUSTER,
    RAY_JOB,
    REVISION,
    SECRET,
    WATCHED,
    Kind,
)
from ppojob_operator.adapters.kubernetes.store import Change, Store
from ppojob_operator.api.v1alpha1.resource import PPOJob
from ppojob_operator.domain.events import Event
from ppojob_operator.domain.observation import RayClusterView, RayJobView
from ppojob_operator.errors import ClusterUnavailable, Conflict, CRDMismatch
from ppojob_operator.ports import Key

_CONFLICT: Final = frozenset({HTTPStatus.CONFLICT.value})
_GONE_OR_CONFLICT: Final = frozenset({HTTPStatus.NOT_FOUND.value, HTTPStatus.CONFLICT.value})
_INVALID: Final = frozenset({HTTPStatus.UNPROCESSABLE_ENTITY.value})
REVISIONS_KEPT: Final = 10
"""Accepted specs of a job: the one that governs, and earlier ones for a person to look at."""
_TOKEN_SECONDS: Final = 60.0
"""For how long a monitor's token is not read again; a Secret's name is never reused."""


class KubernetesCluster:
    """The API server, read from `store` once that is filled and watched, until then from the server itself.

    An empty `namespaces` means all.
    """

    def __init__(
        self,
        api: Api,
        store: Store,
        *,
        namespaces: Sequence[str] = (),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._store = store
        self._namespaces: Sequence[str | None] = tuple(namespaces) or (None,)
        self._events = EventRecorder(api, monotonic=monotonic)
        self._monotonic = monotonic
        self._tokens: dict[tuple[str, str], tuple[str, float]] = {}

    async def sync(self) -> list[Change]:
        """Lists everything that is watched, and corrects the store; says whose worker to wake."""
        changes: list[Change] = []
        for kind in WATCHED:
            shown: dict[str, int] = {}
            versions = []
            for namespace in self._namespaces:
                items, version = await self._api.list(kind.path(namespace), _selector(kind))
                changes += self._store.replace(kind, namespace, items, version)
                shown |= {item["metadata"]["uid"]: int(item["metadata"]["resourceVersion"]) for item in items}
                versions.append(version)
            self._store.watches.listed(kind.plural, shown, min(versions))
        self._store.synced = True
        now = self._monotonic()
        self._tokens = {name: known for name, known in self._tokens.items() if known[1] > now}
        self._events.expire()
        return changes

    async def missing_kinds(self) -> list[str]:
        """Watched kinds that the API server does not know (their CRDs are not installed)."""
        unknown = []
        for kind in (PPO_JOB, RAY_CLUSTER, RAY_JOB):
            answer = await self._api.get(f"/apis/{kind.api_version}")
            if kind.plural not in {item["name"] for item in answer.body.get("resources", [])}:
                unknown.append(f"{kind.plural}.{kind.group}/{kind.version}")
        return unknown

    async def get_job(self, key: Key) -> PPOJob | None:
        # Nothing else of a quiet job's pass waits for anything: without this, a thousand of them that wake at the same
        # time would run in one turn of the loop, and the lease would wait for them.
        await asyncio.sleep(0)
        known = self._store.job(key.uid) if self._store.synced else None
        return known or await self._read_job(key)

    async def _read_job(self, key: Key) -> PPOJob | None:
        answer = await self._api.get(PPO_JOB.path(key.namespace, key.name))
        if not answer.found or answer.body["metadata"]["uid"] != key.uid:
            self._store.remove(PPO_JOB, key.uid)
            return None
        self._store.put(PPO_JOB, answer.body)
        return PPOJob.from_object(answer.body)

    async def find_job(self, namespace: str, name: str) -> PPOJob | None:
        answer = await self._api.get(PPO_JOB.path(namespace, name))
        return PPOJob.from_object(answer.body) if answer.found else None

    async def write_status(self, job: PPOJob, status: dict[str, Any]) -> PPOJob:
        body = {
            "apiVersion": PPO_JOB.api_version,
            "kind": PPO_JOB.name,
            "metadata": {
                "name": job.name,
                "namespace": job.namespace,
                "uid": job.uid,
                "resourceVersion": job.resource_version,
            },
            "status": status,
        }
        path = PPO_JOB.path(job.namespace, job.name, "status")
        answer = await self._api.change("PUT", path, body, accept=_GONE_OR_CONFLICT | _INVALID)
        if answer.status in _INVALID:
            told = " ".join(str(answer.body.get("message", "")).split())
            raise CRDMismatch(
                f"the API server refuses this operator's status of PPOJob {job.namespace}/{job.name}: {told}. Its "
                "CRD is of another version: upgrade the chart with crds.install, or apply the operator's crds/ by hand"
            )
        if answer.status in _GONE_OR_CONFLICT:
            await self._read_job(Key.of(job))  # or the next pass would meet the same old version
            raise Conflict(f"PPOJob {job.namespace}/{job.name} changed or went since it was read")
        self._store.put(PPO_JOB, answer.body)
        return PPOJob.from_object(answer.body)

    async def delete_job(self, job: PPOJob) -> None:
        await self._delete(PPO_JOB, job.namespace, job.name, job.uid)

    async def list_clusters(self, key: Key) -> Sequence[RayClusterView]:
        return (await self._known(key, RAY_CLUSTER, POD)).clusters(key.uid)

    async def leftover_pods(self, key: Key) -> Sequence[str]:
        return (await self._known(key, RAY_CLUSTER, POD)).leftover_pods(key.uid)

    async def list_ray_jobs(self, key: Key) -> Sequence[RayJobView]:
        return (await self._known(key, RAY_JOB)).ray_jobs(key.uid)

    async def _known(self, key: Key, *kinds: Kind) -> Store:
        """The store, or before it is filled one of this job only, read now."""
        if self._store.synced:
            return self._store
        fresh = Store()
        for kind in kinds:
            items, version = await self._api.list(kind.path(key.namespace), f"{LABEL_JOB}={key.name}")
            fresh.replace(kind, key.namespace, items, version)
        return fresh

    async def create(self, manifest: dict[str, Any]) -> None:
        kind, metadata = CREATABLE[manifest["kind"]], manifest["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        # Strict: a field that this KubeRay does not know is an error, where it would be dropped without a word.
        path = f"{kind.path(namespace)}?fieldValidation=Strict"
        answer = await self._api.change("POST", path, manifest, accept=_CONFLICT)
        if answer.status == HTTPStatus.CONFLICT:
            there = await self._api.get(kind.path(namespace, name))
            if _owner(there.body) != _owner(manifest):
                raise Conflict(f"{kind.name} {namespace}/{name} is there already and belongs to something else")
            answer = there
        # A PPOJob (a trial) has a worker of its own, which the watch's first word of it wakes: a store that knew it
        # already would wake nobody.
        if kind in WATCHED and kind is not PPO_JOB:
            self._store.put(kind, answer.body)

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> None:
        await self._delete(DELETABLE[kind], namespace, name, uid)

    async def _delete(self, kind: Kind, namespace: str, name: str, uid: str) -> None:
        # A RayCluster must not seem gone before its pods are: see docs/adr/0002-foreground-deletion.md.
        policy = "Foreground" if kind is RAY_CLUSTER else "Background"
        options = {"propagationPolicy": policy, "preconditions": {"uid": uid}}
        path = kind.path(namespace, name)
        answer = await self._api.change("DELETE", path, options, accept=_GONE_OR_CONFLICT)
        if answer.status in _GONE_OR_CONFLICT:
            self._store.remove(kind, uid)  # the watch may have missed it

    async def claim_exists(self, namespace: str, name: str) -> bool:
        return (await self._api.get(CLAIM.path(namespace, name))).found

    async def read_token(self, namespace: str, secret_name: str) -> str | None:
        token, until = self._tokens.get((namespace, secret_name), ("", 0.0))
        if until > self._monotonic():
            return token
        answer = await self._api.get(SECRET.path(namespace, secret_name))
        encoded = answer.body.get("data", {}).get("token") if answer.found else None
        if encoded is None:
            return None
        token = base64.b64decode(encoded).decode()
        self._tokens[namespace, secret_name] = (token, self._monotonic() + _TOKEN_SECONDS)
        return token

    async def save_revision(self, job: PPOJob, name: str, spec: dict[str, Any]) -> None:
        owner = {"apiVersion": PPO_JOB.api_version, "kind": PPO_JOB.name, "name": job.name, "uid": job.uid}
        manifest = {
            "apiVersion": REVISION.api_version,
            "kind": REVISION.name,
            "metadata": {
                "name": name,
                "namespace": job.namespace,
                "labels": {LABEL_JOB: job.name},
                "ownerReferences": [owner | {"controller": True}],
            },
            "revision": job.generation,
            "data": spec,
        }
        await self.create(manifest)
        with contextlib.suppress(ClusterUnavailable):  # the next accepted edit does it
            await self._delete_old_revisions(job, {name, job.status.accepted_revision})

    async def _delete_old_revisions(self, job: PPOJob, needed: set[str | None]) -> None:
        found, _ = await self._api.list(REVISION.path(job.namespace), f"{LABEL_JOB}={job.name}")
        ours = sorted((item for item in found if _owner(item) == job.uid), key=lambda item: int(item["revision"]))
        for item in ours[:-REVISIONS_KEPT]:
            metadata = item["metadata"]
            if metadata["name"] not in needed:
                await self._delete(REVISION, job.namespace, metadata["name"], metadata["uid"])

    async def load_revision(self, namespace: str, name: str) -> dict[str, Any] | None:
        answer = await self._api.get(REVISION.path(namespace, name))
        data: dict[str, Any] | None = answer.body["data"] if answer.found else None
        return data

    async def emit(self, job: PPOJob, event: Event) -> None:
        await self._events.emit(job, event)


def _selector(kind: Kind) -> str | None:
    """What of a kind is ours."""
    return None if kind is PPO_JOB else LABEL_JOB


def _owner(body: dict[str, Any]) -> str | None:
    owner = views.controller(body) if "metadata" in body else None
    return owner["uid"] if owner else None


def watched(kinds: Iterable[Kind] = WATCHED) -> list[tuple[Kind, str | None]]:
    """What to watch, each with its label selector."""
    return [(kind, _selector(kind)) for kind in kinds]
