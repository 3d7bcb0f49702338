"""Which prompts an attempt gets: what rollbacks did about the data, as long as it is the same data."""

from collections.abc import Sequence

from ppojob_contract.data_plan import DataOrder, DataPlan, StepRange
from ppojob_operator.api.v1alpha1.data_status import DataPlanStatus, Steps
from ppojob_operator.api.v1alpha1.status import AttemptStatus, IntentKind, PPOJobStatus
from ppojob_operator.domain.guardrails.episodes import Breach
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.lineage import lineage

MOST_SKIPPED = 32
"""Ranges of steps in a plan; beyond them the oldest come again."""


def after_breach(status: PPOJobStatus, accepted: AcceptedJob, breach: Breach) -> DataPlanStatus:
    """The plan of the attempt that follows.

    Row N describes the weights after step N-1, so the batch that the step before the first bad row trained on is the
    first suspect.
    """
    before, failing = _inherited(status, accepted), failing_steps(status, breach)
    match accepted.spec.rollback.data:
        case DataOrder.SKIP_FAILING:
            return before.model_copy(update={"skip": [*before.skip, *failing][-MOST_SKIPPED:], "incident": failing})
        case DataOrder.RESHUFFLE:
            return before.model_copy(update={"reshuffle": before.reshuffle + 1, "incident": failing})
        case DataOrder.REPLAY:
            return before.model_copy(update={"incident": failing})


def failing_steps(status: PPOJobStatus, breach: Breach) -> list[Steps]:
    """From the step before the first bad one to the breach; the first may be of the attempt before."""
    first, found = max(1, breach.first_step - 1), []
    for segment in lineage(status):
        begin, end = max(first, segment.after + 1), min(breach.step, segment.through)
        if begin <= end:
            found.append(Steps(attempt=segment.attempt, first=begin, last=int(end)))
    return found


def next_plan(status: PPOJobStatus, accepted: AcceptedJob) -> DataPlanStatus:
    """Of the attempt that is about to be started: the rollback's that leads to it, else that of the one before."""
    current = status.intent
    if current is not None and current.kind is IntentKind.ROLLBACK:
        return current.data
    return _inherited(status, accepted)


def begins_anew(status: PPOJobStatus, attempt: AttemptStatus) -> bool:
    """Whether the attempt cannot go on in the order that its checkpoint was made with."""
    if attempt.resume is None:
        return False
    known = [*status.attempts, *([status.attempt] if status.attempt else [])]
    origin = next((item for item in known if item.number == attempt.resume.attempt), None)
    if origin is None or not origin.data_hash:
        return False  # older than what is remembered: the trainer sees for itself
    return (origin.data_hash, origin.data.reshuffle) != (attempt.data_hash, attempt.data.reshuffle)


def plan(status: DataPlanStatus) -> DataPlan:
    """As the trainer is told."""
    return DataPlan(skip=_ranges(status.skip), reshuffle=status.reshuffle, incident=_ranges(status.incident))


def describe(policy: DataOrder, decided: DataPlanStatus) -> str:
    """What a rollback does about the data, for people."""
    steps = f"{decided.incident[0].first} to {decided.incident[-1].last}" if decided.incident else "none"
    match policy:
        case DataOrder.SKIP_FAILING:
            return f"the prompts of steps {steps} are left out"
        case DataOrder.RESHUFFLE:
            return "the data is shuffled anew"
        case DataOrder.REPLAY:
            return "the same prompts come again"


def _inherited(status: PPOJobStatus, accepted: AcceptedJob) -> DataPlanStatus:
    """What holds now. Steps of other data name nothing that could be left out."""
    attempt = status.attempt
    if attempt is None:
        return DataPlanStatus()
    if attempt.data_hash and attempt.data_hash != accepted.data_hash:
        return attempt.data.model_copy(update={"skip": []})
    return attempt.data


def _ranges(steps: Sequence[Steps]) -> tuple[StepRange, ...]:
    return tuple(StepRange(attempt=item.attempt, first=item.first, last=item.last) for item in steps)
