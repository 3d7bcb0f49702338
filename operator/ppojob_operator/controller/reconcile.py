"""The whole story of one pass: observe, decide, record, act."""

import dataclasses
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from ppojob_contract.mailbox import Command
from ppojob_operator.api.v1alpha1.data_status import DataPlanStatus
from ppojob_operator.api.v1alpha1.resource import PPOJob
from ppojob_operator.api.v1alpha1.status import ParameterValue, PPOJobStatus, ResumePoint
from ppojob_operator.controller.act import Actor
from ppojob_operator.controller.checkpoints import AskedDeletion, confirm, delete
from ppojob_operator.controller.observe import Memory, Observer
from ppojob_operator.domain.decisions import Begin, Decision, Finish, Refuse, Wait
from ppojob_operator.domain.events import WARNING, Event, deleted
from ppojob_operator.domain.guardrails.kept import Kept
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.observation import Observation
from ppojob_operator.domain.plan import Plan, plan
from ppojob_operator.errors import ClusterUnavailable, Conflict
from ppojob_operator.ports import Cluster, Key
from ppojob_operator.render import names
from ppojob_operator.telemetry import Telemetry

logger = logging.getLogger(__name__)

AT_ONCE = timedelta()


@dataclass(slots=True)
class Course:
    """What a worker keeps of a job between passes."""

    memory: Memory = field(default_factory=Memory)
    kept: Kept = field(default_factory=Kept)
    written_at: datetime | None = None
    last_logged: tuple[str, str] = ("", "")
    asked: AskedDeletion = field(default_factory=AskedDeletion)


@dataclass(frozen=True, slots=True)
class Reconciler:
    """Passes over jobs; it holds no state of its own."""

    cluster: Cluster
    observer: Observer
    actor: Actor
    telemetry: Telemetry
    status_interval: timedelta

    async def reconcile(self, key: Key, course: Course) -> timedelta | None:
        """One pass; until when to wait for the next, or None when the job is gone.

        Raises the ports' errors: the caller tries again.
        """
        job = await self.cluster.get_job(key)
        if job is None:
            self.telemetry.forget(key)
            return None
        observation = await self.observer.observe(job, course.memory)
        planned = plan(observation, course.kept)
        status = await self._keep_accepted(observation, planned.status)
        job = await self._record(job, status, planned, course)
        self._tell(key, job, observation.accepted, planned.decision, course)
        if await confirm(self.actor, job, planned.confirm) and isinstance(planned.decision, Wait):
            await self._delete(job, planned, observation, course)  # whatever else is to be done comes first
        for event in planned.events:
            await self.cluster.emit(job, event)
        await self._act(planned.decision, observation, job)
        return requeue(planned.decision)

    async def _delete(self, job: PPOJob, planned: Plan, observation: Observation, course: Course) -> None:
        gone = (await delete(self.actor, job, planned.delete, course.asked)).deleted
        if gone:
            self.telemetry.deleted(len(gone))
            await self.cluster.emit(job, deleted(gone, observation))

    async def _act(self, decision: Decision, observation: Observation, job: PPOJob) -> None:
        """Says aloud what the API server will not do (a quota, an admission policy), then lets the worker try again."""
        try:
            await self.actor.act(decision, job, observation.accepted)
        except (ClusterUnavailable, Conflict) as error:
            await self.cluster.emit(job, Event(type=WARNING, reason="ActionFailed", message=str(error)[:1000]))
            raise

    async def _keep_accepted(self, observation: Observation, status: PPOJobStatus) -> PPOJobStatus:
        """Saves a newly accepted spec, so that a later refused edit does not replace it."""
        accepted, job = observation.accepted, observation.job
        if accepted is None or observation.problems:
            return status
        name = f"{names.base(job.name, job.uid)}-{accepted.spec_hash}"
        if name != status.accepted_revision:
            await self.cluster.save_revision(job, name, accepted.spec.model_dump(mode="json", by_alias=True))
        return status.model_copy(update={"accepted_revision": name})

    async def _record(self, job: PPOJob, status: PPOJobStatus, planned: Plan, course: Course) -> PPOJob:
        """Writes the status where something turned, otherwise now and then only.

        Before an act always: the write is refused where the job is not as it was read, so that an operator whose view
        is behind does not act on it (it would create again what another has removed).
        """
        new = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        old = job.status.model_dump(mode="json", by_alias=True, exclude_none=True)
        now = self.observer.clock()
        due = course.written_at is None or now - course.written_at >= self.status_interval
        turned = new != old and (_essence(new) != _essence(old) or planned.events or due)
        if not turned and isinstance(planned.decision, Wait | Refuse):
            return job
        written = await self.cluster.write_status(job, new)
        course.written_at = now
        return written

    def _tell(self, key: Key, job: PPOJob, accepted: AcceptedJob | None, decision: Decision, course: Course) -> None:
        self.telemetry.observe_job(key, job.status, accepted.spec if accepted else None)
        self.telemetry.count_decision(decision)
        line = _in_words(decision)
        if line != course.last_logged:
            course.last_logged = line
            logger.info("%s %s", *line, extra=_fields(job) | {"decision": line[0], "reason": _reason(decision, job)})


def requeue(decision: Decision) -> timedelta:
    """When to look again if nothing wakes the worker before."""
    match decision:
        case Wait(requeue=delay):
            return delay
        case Refuse():
            return timedelta(hours=1)
        case _:
            return AT_ONCE


def _fields(job: PPOJob) -> dict[str, Any]:
    attempt = job.status.attempt
    return Key.of(job).log_fields | {"attempt": attempt.number if attempt else 0}


def _reason(decision: Decision, job: PPOJob) -> str | None:
    """The decision's own, or that of the recorded intent which it carries out."""
    match decision:
        case Wait(reason=reason) | Finish(reason=reason):
            return reason
        case Begin(intent=intent):
            return intent.reason
        case _:
            return job.status.intent.reason if job.status.intent else None


def _in_words(decision: Decision) -> tuple[str, str]:
    name = type(decision).__name__
    match decision:
        case Wait(reason=reason, message=message):
            return name, f"{reason} {message}".strip()
        case Begin(intent=intent):
            return name, f"{intent.kind.value} {intent.reason}: {intent.message}"
        case _:
            values = (f"{item.name}={_short(getattr(decision, item.name))}" for item in dataclasses.fields(decision))
            return name, " ".join(values)


def _short(value: object) -> str:
    match value:
        case ResumePoint(attempt=attempt, step=step):
            return f"{attempt}/{step}"
        case tuple():
            return ",".join(_short(item) for item in value) or "-"
        case DataPlanStatus(skip=skip, reshuffle=reshuffle):
            return f"{len(skip)} left out, reshuffle {reshuffle}"
        case ParameterValue(parameter=parameter, value=number):
            return f"{parameter.value}:{number:g}"
        case PPOJob(name=name):
            return name
        case Command(id=name):
            return name
        case StrEnum():
            return value.value
        case Mapping():
            return f"({', '.join(map(str, value))})"
        case _:
            return str(value)


_PROGRESS = ("progress", "metrics", "goodput", "evaluatedThrough", "message")


def _essence(status: dict[str, Any]) -> dict[str, Any]:
    """The status without what changes at every step."""
    kept = {key: value for key, value in status.items() if key not in _PROGRESS}
    kept["attempt"] = {key: value for key, value in status.get("attempt", {}).items() if key != "lastStep"}
    kept["held"] = status.get("goodput", {}).get("heldSince") is not None
    kept["guardrails"] = [(item["name"], item["verdict"]) for item in status.get("guardrails", [])]
    kept["conditions"] = [(item["type"], item["status"], item["reason"]) for item in status.get("conditions", [])]
    checkpoints = status.get("checkpoints", {}).get("items", [])
    kept["checkpoints"] = [(item["attempt"], item["step"], item["phase"]) for item in checkpoints]
    return kept
