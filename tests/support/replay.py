"""Journals of real runs, replayed through the whole decision: rows appear so many at a time, nothing else happens."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tests.support.builders import NOW, UID, raw_spec

from ppojob_contract.journal import CHECKPOINT_SAVED, RowKind
from ppojob_contract.mailbox import CheckpointRef
from ppojob_contract.protocol import AttemptState, CheckpointState, LockState, State, StepRow
from ppojob_operator.api.v1alpha1.resource import PPOJob
from ppojob_operator.api.v1alpha1.status import AttemptStatus, PPOJobStatus
from ppojob_operator.domain.acceptance import accept
from ppojob_operator.domain.decisions import Begin
from ppojob_operator.domain.guardrails.kept import Kept
from ppojob_operator.domain.guardrails.queries import Queries
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.observation import HeadPod, MonitorView, Observation, RayClusterView, RayJobView, Reach
from ppojob_operator.domain.plan import Plan, plan

HEAD = HeadPod(name="head", uid="head", ip="10.0.0.1", ready=True, failed=False, restarts=0)
CLUSTER = RayClusterView(
    name="c1", uid="cluster", number=1, deleting=False, head=HEAD, workers_ready=0, workers_desired=0
)
RAY_JOB = RayJobView(name="a1", uid="job", attempt=1, deleting=False, job_status="RUNNING", deployment_status="Running")

Answers = Callable[[Sequence[StepRow]], Queries | None]
"""What Prometheus has said by the time that these rows are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a replay ended: what was decided, and what was said on the way to an end without any decision."""

    intent: tuple[object, ...] | None
    events: tuple[tuple[str, str], ...]
    confirmed: tuple[int, ...]


def replay(
    rows: Sequence[StepRow], spec: Mapping[str, Any], *, at_a_time: int | Sequence[int], answers: Answers | None = None
) -> Ending:
    """Passes over a job whose only attempt has first so many rows, then so many more, until something begins."""
    accepted = _accepted(raw_spec() | dict(spec))
    chunks = [at_a_time] * len(rows) if isinstance(at_a_time, int) else list(at_a_time)
    status = _training(accepted)
    kept = Kept()
    events: list[tuple[str, str]] = []
    confirmed: set[int] = set()
    for known in _known(len(rows), chunks):
        observation = _observation(rows[:known], accepted, status, answers)
        planned = plan(observation, kept)
        status = planned.status
        events += [(event.reason, event.message) for event in planned.events if event.reason != "FirstStep"]
        confirmed |= {ref.step for ref in planned.confirm or ()}
        if isinstance(planned.decision, Begin):
            return Ending(intent=_intent(planned), events=(), confirmed=())
    return Ending(intent=None, events=_guarded(events), confirmed=tuple(sorted(confirmed)))


def _known(total: int, chunks: Sequence[int]) -> Iterator[int]:
    known = 0
    for chunk in chunks:
        known = min(total, known + chunk)
        yield known
        if known == total:
            return
    yield total


def _intent(planned: Plan) -> tuple[object, ...]:
    assert isinstance(planned.decision, Begin)
    intent = planned.decision.intent
    return intent.kind, intent.reason, intent.guardrail, intent.resume, intent.message, intent.adjustments


def _guarded(events: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """What guardrails have said."""
    return tuple(sorted(item for item in events if item[0] == "GuardrailBreached" or item[0].endswith("DryRun")))


def _accepted(spec: dict[str, Any]) -> AcceptedJob:
    accepted, problems, _ = accept(_job(spec, PPOJobStatus()), prometheus=True)
    assert accepted is not None, [str(problem) for problem in problems]
    return accepted


def _job(spec: dict[str, Any], status: PPOJobStatus) -> PPOJob:
    return PPOJob(
        namespace="team", name="job", uid=UID, generation=1, resource_version="1", created=NOW, deleting=False,
        raw_spec=spec, status=status,
    )  # fmt: skip


def _training(accepted: AcceptedJob) -> PPOJobStatus:
    attempt = AttemptStatus(
        number=1, cluster=1, head_uid="head", created=NOW, job_uid="job", first_step=NOW,
        training_hash=accepted.training_hash,
    )  # fmt: skip
    return PPOJobStatus(cluster_number=1, cluster_uid="cluster", attempt=attempt, cluster_hash=accepted.cluster_hash)


def _observation(
    rows: Sequence[StepRow], accepted: AcceptedJob, status: PPOJobStatus, answers: Answers | None
) -> Observation:
    return Observation(
        now=NOW + timedelta(seconds=len(rows)),
        job=_job({}, status),
        accepted=accepted,
        problems=(),
        warnings=(),
        clusters=(CLUSTER,),
        jobs=(RAY_JOB,),
        monitor=MonitorView(reach=Reach.OK, state=_state(rows), rows={1: tuple(rows)}),
        queries=answers(rows) if answers else None,
    )


def _state(rows: Sequence[StepRow]) -> State:
    saved = [row.step for row in rows if row.kind is RowKind.EVENT and row.event == CHECKPOINT_SAVED]
    attempt = AttemptState(
        attempt=1, rows=len(rows), last_step=None, last_heartbeat_age_seconds=0.0, command=None, claimed_by=None,
        ack=None, outcome=None,
    )  # fmt: skip
    return State(
        job_uid=UID,
        pod_uid="head",
        lock=LockState.HELD,
        attempts=(attempt,),
        checkpoints=tuple(
            CheckpointState(
                ref=CheckpointRef(attempt=1, step=step), problem=None, saving=False, size_bytes=1, world_size=1
            )
            for step in saved
        ),
        confirmed=(),
    )
