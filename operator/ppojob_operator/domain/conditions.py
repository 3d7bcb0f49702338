"""Conditions: the machine's view of the same story. A condition keeps its transition time while its status does."""

from collections.abc import Iterable

from ppojob_contract.outcomes import ExitClass
from ppojob_operator.api.v1alpha1.status import (
    CheckpointPhase,
    ConditionStatus,
    ConditionType,
    PPOJobStatus,
    StatusCondition,
    Verdict,
)
from ppojob_operator.domain.decisions import CLAIM_NOT_FOUND, Decision, Finish, Wait
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.observation import Observation, silent
from ppojob_operator.domain.provision import describe, trouble
from ppojob_operator.domain.requested import what_is_there

_TRUE, _FALSE, _UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


def conditions(
    observation: Observation, judgement: Judgement, decision: Decision, status: PPOJobStatus
) -> list[StatusCondition]:
    """All conditions of the new status."""
    views = [
        (ConditionType.ACCEPTED, *_accepted(observation, judgement)),
        (ConditionType.CLUSTER_READY, *_cluster_ready(observation, decision, status)),
        (ConditionType.HEALTHY, *_healthy(observation, judgement, status)),
        (ConditionType.COMPLETE, *_complete(status, decision)),
        (ConditionType.FAILED, *_failed(status, decision)),
        (ConditionType.ROLLBACK_READY, *_rollback_ready(status)),
    ]
    old = {item.type: item for item in status.conditions}
    return [_keep_time(old.get(view[0]), observation, view) for view in views]


def _keep_time(
    old: StatusCondition | None, observation: Observation, view: tuple[ConditionType, ConditionStatus, str, str]
) -> StatusCondition:
    kind, value, reason, message = view
    return StatusCondition(
        type=kind,
        status=value,
        reason=reason,
        message=message,
        last_transition_time=old.last_transition_time if old and old.status is value else observation.now,
        observed_generation=observation.job.generation,
    )


def _accepted(observation: Observation, judgement: Judgement) -> tuple[ConditionStatus, str, str]:
    if observation.problems:
        governs = "; the last accepted spec governs" if observation.accepted else ""
        return _FALSE, "InvalidSpec", _joined(observation.problems) + governs
    warnings: list[object] = list(observation.warnings)
    if observation.accepted is not None:
        in_the_way = what_is_there(observation.job.status, observation.accepted, judgement)
        warnings = [*([in_the_way] if in_the_way else []), *warnings]
    if warnings:
        return _TRUE, "AcceptedWithWarnings", _joined(warnings)
    return _TRUE, "Accepted", ""


def _joined(problems: Iterable[object]) -> str:
    return "; ".join(str(problem) for problem in problems)[:8192]


def _cluster_ready(
    observation: Observation, decision: Decision, status: PPOJobStatus
) -> tuple[ConditionStatus, str, str]:
    cluster = observation.cluster(status.cluster_number)
    if cluster is not None and cluster.ready:
        return _TRUE, "Ready", f"RayCluster {cluster.name}"
    if isinstance(decision, Wait) and decision.reason == CLAIM_NOT_FOUND:
        return _FALSE, decision.reason, decision.message
    if cluster is None and (status.cluster_number == 0 or status.finished or observation.job.raw_spec.get("suspend")):
        return _FALSE, "NoCluster", ""
    return _FALSE, trouble(cluster) or "NotReady", describe(cluster)


def _healthy(observation: Observation, judgement: Judgement, status: PPOJobStatus) -> tuple[ConditionStatus, str, str]:
    attempt = status.attempt
    if attempt is None or attempt.first_step is None:
        return _UNKNOWN, "Waiting", "no step yet"
    old = _recorded(status, ConditionType.HEALTHY)
    unread = judgement.last_row is None and not (silent(observation.monitor) and attempt.ended is None)
    if old is not None and (status.finished is not None or unread):
        return old.status, old.reason, old.message
    if judgement.breach is not None:
        return _FALSE, "GuardrailBreached", f"{judgement.breach.guardrail.name}: {judgement.breach.summary}"
    if silent(observation.monitor) and attempt.ended is None:
        return _UNKNOWN, "Inconclusive", f"no figures: {observation.monitor.message}"
    by_verdict = {
        verdict: [f"{item.name}: {item.message}" for item in status.guardrails if item.verdict is verdict]
        for verdict in Verdict
    }
    if by_verdict[Verdict.BREACHED]:
        return _FALSE, "GuardrailBreached", "; ".join(by_verdict[Verdict.BREACHED])
    if by_verdict[Verdict.INCONCLUSIVE]:
        missing = any(item.missing for item in judgement.assessments)
        reason = "GuardrailMetricMissing" if missing else "Inconclusive"
        return _UNKNOWN, reason, "; ".join(by_verdict[Verdict.INCONCLUSIVE])
    if not (observation.accepted and observation.accepted.spec.guardrails):
        return _TRUE, "Unguarded", "only the default guardrails are on (non-finite values, failing rewards)"
    return _TRUE, "Healthy", ""


def _complete(status: PPOJobStatus, decision: Decision) -> tuple[ConditionStatus, str, str]:
    if status.finished is not None and status.outcome is ExitClass.SUCCEEDED:
        old = _recorded(status, ConditionType.COMPLETE)
        kept = old.message if old else ""
        return _TRUE, "Succeeded", decision.message if isinstance(decision, Finish) else kept
    return _FALSE, "NotComplete", ""


def _failed(status: PPOJobStatus, decision: Decision) -> tuple[ConditionStatus, str, str]:
    if status.finished is None or status.outcome is ExitClass.SUCCEEDED:
        return _FALSE, "NotFailed", ""
    if isinstance(decision, Finish):
        return _TRUE, decision.reason, decision.message
    old = _recorded(status, ConditionType.FAILED)
    return _TRUE, old.reason if old else "Failed", old.message if old else ""


def _rollback_ready(status: PPOJobStatus) -> tuple[ConditionStatus, str, str]:
    confirmed, items = status.checkpoints.confirmed, status.checkpoints.items
    if confirmed is not None:
        return _TRUE, "Confirmed", f"step {confirmed.step} of attempt {confirmed.attempt}"
    damaged = next((item for item in reversed(items) if item.phase is CheckpointPhase.UNUSABLE), None)
    if damaged is not None:
        what = f"that of step {damaged.step} (attempt {damaged.attempt}) cannot be loaded: {damaged.message}"
        return _FALSE, "NoConfirmedCheckpoint", f"no checkpoint is confirmed; {what}"
    return _FALSE, "NoConfirmedCheckpoint", "no checkpoint is confirmed"


def _recorded(status: PPOJobStatus, kind: ConditionType) -> StatusCondition | None:
    """The condition as it was written last."""
    return next((item for item in status.conditions if item.type is kind), None)
