"""What a decision writes into the status, before it is acted on."""

from collections.abc import Sequence

from ppojob_operator.api.v1alpha1.status import (
    AttemptStatus,
    Intent,
    IntentKind,
    ParameterValue,
    PausedBy,
    PPOJobStatus,
    RollbackMark,
    RollbackPath,
)
from ppojob_operator.domain.data_plan import begins_anew
from ppojob_operator.domain.decisions import (
    AskToStop,
    Begin,
    CloseAttempt,
    CloseStage,
    CreateCluster,
    Decision,
    Finish,
    GoCold,
    RollBackInPlace,
    Settle,
    StartAttempt,
    StartStage,
    StartTrial,
    SwitchAttempt,
)
from ppojob_operator.domain.lineage import lineage
from ppojob_operator.domain.observation import Observation
from ppojob_operator.domain.pipeline.again import TAKEN_UP, asked_for, taken_up
from ppojob_operator.domain.pipeline.transitions import stage_failed, stage_transition, stages_stopped
from ppojob_operator.domain.requested import REQUESTED, observed
from ppojob_operator.domain.targets import UNLOADABLE

MAX_HISTORY = 20


def decided(observation: Observation, status: PPOJobStatus, decision: Decision) -> PPOJobStatus:
    """The status with the decision in it; what only waits, or removes something, leaves no trace of its own."""
    match decision:
        case Begin() | AskToStop() | RollBackInPlace() | GoCold() | Settle() | Finish():
            return _intent(observation, status, decision)
        case CreateCluster(number=number):
            return _cluster(observation, status, number)
        case StartStage() | CloseStage() | StartTrial():
            return stage_transition(observation, status, decision)
        case CloseAttempt():
            return _closed(observation, status)
        case StartAttempt():
            return _started(observation, status, decision)
        case SwitchAttempt(number=number):
            return _switched(observation, status, number)
        case _:
            return status


def _intent(
    observation: Observation,
    status: PPOJobStatus,
    decision: Begin | AskToStop | RollBackInPlace | GoCold | Settle | Finish,
) -> PPOJobStatus:
    match decision:
        case Begin(intent=new):
            return _begun(observation, status, new)
        case AskToStop() if status.intent and status.intent.stop_requested is None:
            return _with_intent(status, stop_requested=observation.now)
        case RollBackInPlace() if status.intent and status.intent.commanded is None:
            return _with_intent(status, commanded=observation.now)
        case GoCold():
            return _gone_cold(observation, status, decision)
        case Settle():
            return stages_stopped(observation, status).model_copy(update={"intent": None})
        case Finish(outcome=outcome):
            ended = {"intent": None, "finished": observation.now, "outcome": outcome}
            return stages_stopped(observation, status).model_copy(update=ended)
        case _:
            return status


def _with_intent(status: PPOJobStatus, **update: object) -> PPOJobStatus:
    assert status.intent is not None, "there is an intent to change"
    return status.model_copy(update={"intent": status.intent.model_copy(update=update)})


def _begun(observation: Observation, status: PPOJobStatus, new: Intent) -> PPOJobStatus:
    accepted = observation.accepted
    if new.kind is IntentKind.FAIL and accepted is not None:
        status = stage_failed(status, new)
        if status.intent is not None and status.intent.kind is IntentKind.COMPLETE:
            status = status.model_copy(update={"failed_after_training": asked_for(accepted.spec)})
    if new.reason == TAKEN_UP and accepted is not None:
        status = taken_up(status, accepted)
    update: dict[str, object] = {"intent": new}
    if new.kind is IntentKind.ROLLBACK:
        update |= {
            "rollbacks": status.rollbacks + 1,
            "rollbacks_since_progress": status.rollbacks_since_progress + 1,
            "rollback_mark": max(new.step, status.rollback_mark),
            "restarts_since_progress": 0,
            "restart_mark": new.resume.step if new.resume else 0,
            "last_rollback": _mark(new),
        }
    if new.kind is IntentKind.SUSPEND and new.guardrail is not None:
        update["paused_by"] = PausedBy(
            guardrail=new.guardrail,
            reason=new.reason,
            message=new.message,
            attempt=status.attempt.number if status.attempt else 0,
            step=new.step,
            since=new.since,
        )
    if new.reason == REQUESTED:  # a person has seen what went wrong before
        update |= {"rollbacks_since_progress": 0, "restarts_since_progress": 0}
    if new.kind is IntentKind.RESTART and new.reason != UNLOADABLE:
        step = status.attempt.last_step or 0 if status.attempt else 0
        before = 0 if step > status.restart_mark else status.restarts_since_progress
        update |= {
            "restarts": status.restarts + 1,
            "restarts_since_progress": before + 1,
            "restart_mark": max(step, status.restart_mark),
        }
    return status.model_copy(update=update)


def _mark(rollback: Intent) -> RollbackMark | None:
    if rollback.guardrail is None or rollback.resume is None:
        return None
    return RollbackMark(guardrail=rollback.guardrail, target=rollback.resume)


def _closed(observation: Observation, status: PPOJobStatus) -> PPOJobStatus:
    """The attempt's RayJob is gone: its end becomes history."""
    assert status.attempt is not None, "only an attempt is closed"
    current = status.intent
    result = status.outcome.value if status.outcome else "Unknown"
    if current is not None and current.kind in {IntentKind.ROLLBACK, IntentKind.SUSPEND, IntentKind.SPEC_CHANGE}:
        result = {"Rollback": "RolledBack", "Suspend": "Suspended", "SpecChange": "SpecChanged"}[current.kind.value]
        result = "Paused" if current.kind is IntentKind.SUSPEND and current.guardrail else result
    elif current is not None and current.kind is IntentKind.RESTART:
        result = current.reason
    ended = status.attempt.model_copy(
        update={
            "ended": observation.now,
            "result": result[:64],
            "message": current.message[:1024] if current else "",
        }
    )
    history = [*(item for item in status.attempts if item.number != ended.number), ended]
    return status.model_copy(update={"attempt": ended, "attempts": _remembered(history, status)})


def _remembered(history: list[AttemptStatus], status: PPOJobStatus) -> list[AttemptStatus]:
    """The newest attempts; those that led to today's weights stay before others."""
    ancestors = {segment.attempt for segment in lineage(status)}
    by_worth = sorted(history, key=lambda item: (item.number in ancestors, item.number))
    return sorted(by_worth[-MAX_HISTORY:], key=lambda item: item.number)


def _cluster(observation: Observation, status: PPOJobStatus, number: int) -> PPOJobStatus:
    assert observation.accepted is not None, "clusters are made for accepted jobs only"
    if number == status.cluster_number:
        return status
    return status.model_copy(
        update={
            "cluster_number": number,
            "cluster_uid": None,
            "cluster_hash": observation.accepted.cluster_hash,
        }
    )


def _gone_cold(observation: Observation, status: PPOJobStatus, decision: GoCold) -> PPOJobStatus:
    """A number that the trainer may have taken stays in the history, and the next start takes the one after it."""
    current = status.intent
    assert current is not None, "a rollback goes cold"
    assert current.next_attempt is not None, "a rollback names the next attempt"
    message = f"{current.message}; by a new start: {decision.message}"[:4096]
    update: dict[str, object] = {"path": RollbackPath.COLD, "message": message}
    if not decision.number_used:
        return _with_intent(status, **update)
    burned = AttemptStatus(
        number=current.next_attempt,
        cluster=status.cluster_number,
        cause=current.kind,
        resume=current.resume,
        created=current.commanded or observation.now,
        ended=observation.now,
        result="Superseded",
        message=decision.message[:1024],
    )
    status = _with_intent(status, **update, next_attempt=current.next_attempt + 1)
    return status.model_copy(update={"attempts": _remembered([*status.attempts, burned], status)})


def _switched(observation: Observation, status: PPOJobStatus, number: int) -> PPOJobStatus:
    """The trainer that ran the attempt runs the next one."""
    before, current = status.attempt, status.intent
    assert before is not None, "an attempt ran"
    assert current is not None, "a rollback was intended"
    if before.ended is None:
        status = _closed(observation, status)
    attempt = AttemptStatus(
        number=number,
        cluster=before.cluster,
        head_uid=before.head_uid,
        cause=current.kind,
        resume=current.resume,
        source=before.source,
        training_hash=before.training_hash,
        data_hash=before.data_hash,
        data=current.data,
        created=current.commanded or observation.now,
        job_uid=before.job_uid,
        carried_by=before.carrier,
    )
    status = status.model_copy(update={"attempts": [item for item in status.attempts if item.number != number]})
    return _begun_attempt(status, attempt, current.adjustments)


def _started(observation: Observation, status: PPOJobStatus, decision: StartAttempt) -> PPOJobStatus:
    assert observation.accepted is not None, "attempts are started for accepted jobs only"
    if status.attempt is not None and status.attempt.number == decision.number:
        return status
    attempt = AttemptStatus(
        number=decision.number,
        cluster=decision.cluster,
        head_uid=decision.head_uid,
        cause=status.intent.kind if status.intent else None,
        resume=decision.resume,
        source=decision.source,
        training_hash=observation.accepted.training_hash,
        data_hash=observation.accepted.data_hash,
        data=decision.data,
        created=observation.now,
    )
    nonce = observed(status, observation.accepted, decision.resume)
    status = status.model_copy(update={"observed_restart_nonce": nonce})
    return _begun_attempt(status, attempt, decision.adjustments)


def _begun_attempt(status: PPOJobStatus, attempt: AttemptStatus, adjustments: Sequence[ParameterValue]) -> PPOJobStatus:
    return status.model_copy(
        update={
            "attempt": attempt.model_copy(update={"data_anew": begins_anew(status, attempt)}),
            "intent": None,
            "outcome": None,
            "paused_by": None,
            "adjustments": list(adjustments),
            "guardrails": [],
        }
    )
