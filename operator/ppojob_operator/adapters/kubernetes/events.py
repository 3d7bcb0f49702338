"""Kubernetes events about PPOJobs: one object for each distinct message, counted up when it comes again."""

import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from ppojob_operator.adapters.kubernetes.api import MERGE_PATCH, Answer, Api
from ppojob_operator.adapters.kubernetes.kinds import EVENT, PPO_JOB
from ppojob_operator.api.v1alpha1.resource import PPOJob
from ppojob_operator.domain.events import Event
from ppojob_operator.errors import ClusterUnavailable

logger = logging.getLogger(__name__)

COMPONENT: Final = "ppojob-operator"
_QUIET_SECONDS: Final = 10.0
"""The same event within this time is not sent again: something repeats itself quickly, and is told already."""
_REMEMBERED_SECONDS: Final = 3600.0
_LONGEST: Final = 1024
"""Characters that the API server takes as an event's message."""
_NOT_FOUND: Final = frozenset({HTTPStatus.NOT_FOUND.value})
_CONFLICT: Final = frozenset({HTTPStatus.CONFLICT.value})


@dataclass(slots=True)
class _Sent:
    count: int
    at: float


class EventRecorder:
    """Sends events, best effort: what fails is logged and never stops a decision.

    The name of an event is derived from what it says, so another process counts up the same one.
    """

    def __init__(self, api: Api, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._monotonic = monotonic
        self._sent: dict[str, _Sent] = {}

    async def emit(self, job: PPOJob, event: Event) -> None:
        name = _name(job, event)
        known, now = self._sent.get(name), self._monotonic()
        if known is not None and now - known.at < _QUIET_SECONDS:
            return
        try:
            count = await self._count_up(job, name, known.count + 1) if known else 0
            count = count or await self._create(job, name, event)
        except ClusterUnavailable as error:
            logger.warning("event %s was not recorded: %s", event.reason, error)
            return
        self._sent[name] = _Sent(count, now)

    def expire(self) -> None:
        """Forgets what the API server has forgotten by now."""
        since = self._monotonic() - _REMEMBERED_SECONDS
        self._sent = {name: sent for name, sent in self._sent.items() if sent.at > since}

    async def _create(self, job: PPOJob, name: str, event: Event) -> int:
        body = _body(job, name, event)
        answer = await self._api.change("POST", EVENT.path(job.namespace), body, accept=_CONFLICT)
        if answer.status == HTTPStatus.CONFLICT:  # sent by a process before this one: its count goes on
            known = await self._patch(job, name, {})
            return await self._count_up(job, name, known.body.get("count", 1) + 1)
        return 1

    async def _count_up(self, job: PPOJob, name: str, count: int) -> int:
        """The new count; 0 where the API server has forgotten the event."""
        return count if (await self._patch(job, name, {"count": count})).found else 0

    async def _patch(self, job: PPOJob, name: str, changed: dict[str, Any]) -> Answer:
        path, patch = EVENT.path(job.namespace, name), {**changed, "lastTimestamp": _now()}
        return await self._api.change("PATCH", path, patch, accept=_NOT_FOUND, content_type=MERGE_PATCH)


def _name(job: PPOJob, event: Event) -> str:
    said = repr((job.uid, event.type, event.reason, event.message))
    return f"{job.name}.{hashlib.sha256(said.encode()).hexdigest()[:16]}"


def _body(job: PPOJob, name: str, event: Event) -> dict[str, Any]:
    now = _now()
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.name,
        "metadata": {"name": name, "namespace": job.namespace},
        "involvedObject": {
            "apiVersion": PPO_JOB.api_version,
            "kind": PPO_JOB.name,
            "name": job.name,
            "namespace": job.namespace,
            "uid": job.uid,
        },
        "type": event.type,
        "reason": event.reason,
        "message": event.message[:_LONGEST],
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
