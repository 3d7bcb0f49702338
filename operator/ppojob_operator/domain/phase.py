"""One word and one line for a person; derived, never an input."""

from collections.abc import Mapping

from ppojob_contract.outcomes import ExitClass
from ppojob_operator.api.v1alpha1.stage_status import StageName
from ppojob_operator.api.v1alpha1.status import AttemptStatus, Intent, IntentKind, Phase, PPOJobStatus
from ppojob_operator.domain.decisions import Decision, Finish, Refuse, Settle, Wait
from ppojob_operator.domain.observation import Observation
from ppojob_operator.domain.pause import RESTING, paused, resting
from ppojob_operator.domain.pipeline.flow import all_done
from ppojob_operator.domain.pipeline.recorded import running
from ppojob_operator.domain.source import begins

_BY_CAUSE = {
    IntentKind.ROLLBACK: Phase.ROLLING_BACK,
    IntentKind.RESTART: Phase.RESTARTING,
    IntentKind.SPEC_CHANGE: Phase.RESTARTING,
}

NEXT: Mapping[str, frozenset[Phase]] = {
    "": frozenset({Phase.PENDING, Phase.PROVISIONING, Phase.SUSPENDED, Phase.INVALID}),
    Phase.INVALID: frozenset({Phase.PENDING, Phase.PROVISIONING, Phase.SUSPENDED}),
    Phase.PENDING: frozenset({Phase.PROVISIONING, Phase.SUSPENDED}),
    Phase.PROVISIONING: frozenset(
        {Phase.RUNNING, Phase.ROLLING_BACK, Phase.RESTARTING, Phase.SUSPENDED, Phase.SUCCEEDED, Phase.FAILED}
    ),
    Phase.RUNNING: frozenset(
        {Phase.PROVISIONING, Phase.ROLLING_BACK, Phase.RESTARTING, Phase.SUSPENDED, Phase.SUCCEEDED, Phase.FAILED}
    ),
    Phase.ROLLING_BACK: frozenset(
        {Phase.RUNNING, Phase.PROVISIONING, Phase.RESTARTING, Phase.SUSPENDED, Phase.SUCCEEDED, Phase.FAILED}
    ),
    Phase.RESTARTING: frozenset(
        {Phase.RUNNING, Phase.PROVISIONING, Phase.ROLLING_BACK, Phase.SUSPENDED, Phase.SUCCEEDED, Phase.FAILED}
    ),
    Phase.SUSPENDED: frozenset({Phase.PENDING, Phase.PROVISIONING, Phase.ROLLING_BACK, Phase.RESTARTING}),
    Phase.SUCCEEDED: frozenset(),
    Phase.FAILED: frozenset({Phase.PROVISIONING, Phase.SUSPENDED}),
}
"""What may follow a phase, "" being a new job's; `docs/operating.md` says why."""


_IN_WORDS = {
    IntentKind.ROLLBACK: "rolling back",
    IntentKind.RESTART: "restarting",
    IntentKind.SPEC_CHANGE: "restarting",
    IntentKind.SUSPEND: "suspending",
    IntentKind.FAIL: "failing",
    IntentKind.COMPLETE: "ending",
}


def phase(observation: Observation, status: PPOJobStatus) -> Phase:
    """The phase of a job with this status."""
    if status.finished is not None:
        return Phase.SUCCEEDED if status.outcome is ExitClass.SUCCEEDED else Phase.FAILED
    if observation.accepted is None:
        return Phase.INVALID
    if (observation.accepted.spec.suspend or paused(status)) and _nothing_runs(observation, status):
        return Phase.SUSPENDED
    if status.intent is not None and status.intent.kind in _BY_CAUSE:
        return _BY_CAUSE[status.intent.kind]
    if status.attempt is not None and status.attempt.ended is None:
        return _of_attempt(status.attempt)
    if status.intent is not None:
        if running(status) is not None:
            return Phase.RUNNING
        return Phase.PROVISIONING if status.phase in {Phase.SUSPENDED, Phase.FAILED} else status.phase
    if _stages_begun(status):
        return Phase.RUNNING
    return Phase.PENDING if status.cluster_number == 0 else Phase.PROVISIONING


def _stages_begun(status: PPOJobStatus) -> bool:
    """On the present cluster, or by a trial."""
    return any(item.cluster == status.cluster_number for item in status.stages)


def stage(status: PPOJobStatus) -> StageName | None:
    """The part of the job that runs, or ran last."""
    now = running(status)
    if now is not None:
        return now.name
    attempt = status.attempt
    if attempt is not None and attempt.ended is None:
        return StageName.TRAIN
    latest = max(status.stages, key=lambda item: item.created, default=None)
    if latest is None:
        return StageName.TRAIN if attempt is not None else None
    return StageName.TRAIN if attempt is not None and attempt.created > latest.created else latest.name


def _about_to_end(observation: Observation, status: PPOJobStatus, intent: Intent) -> bool:
    if intent.kind is IntentKind.COMPLETE:
        return observation.accepted is None or all_done(status, observation.accepted)
    return intent.kind is IntentKind.FAIL


def _nothing_runs(observation: Observation, status: PPOJobStatus) -> bool:
    """And it may go on: a run that is about to end has no other word than before until it has ended."""
    if status.intent is not None and _about_to_end(observation, status, status.intent):
        return False
    ended = status.attempt is None or status.attempt.ended is not None
    return ended and not observation.clusters and not observation.jobs


def _of_attempt(attempt: AttemptStatus) -> Phase:
    if attempt.first_step is not None:
        return Phase.RUNNING
    return _BY_CAUSE.get(attempt.cause, Phase.PROVISIONING) if attempt.cause else Phase.PROVISIONING


def summary(status: PPOJobStatus, decision: Decision) -> str:
    """One line: what is going on, or why nothing is."""
    if isinstance(decision, Refuse):
        return "the spec was refused: see condition Accepted"
    if isinstance(decision, Finish):
        return decision.message[:4096]
    if isinstance(decision, Settle) or (isinstance(decision, Wait) and decision.reason == RESTING):
        return resting(status).message
    waiting_for = decision.message if isinstance(decision, Wait) else ""
    if status.intent is not None:
        now = f" (now: {waiting_for})" if waiting_for else ""
        return f"{_IN_WORDS[status.intent.kind]}: {status.intent.message}{now}"[:4096]
    if waiting_for:
        return waiting_for[:4096]
    if status.finished is not None:
        return status.message
    attempt = status.attempt
    if attempt is None or attempt.ended is not None:
        return ""
    if attempt.first_step is None:
        return f"attempt {attempt.number} is starting" + (
            f" {begins(attempt)}" if attempt.resume or attempt.source else ""
        )
    return f"attempt {attempt.number} is training"
