"""Which checkpoints may go. What a run could need next stays, whatever the limits say.

    Confirmed   the newest `keepLast`, and the best
    Complete    not proven yet: the next to be, and so many of the newest as can be under proof at a time and `keepLast`
                more: a run whose verdicts stay Inconclusive must not fill the volume. None that is older than the
                newest Confirmed: its rows are all there, and did not prove it
    Suspect, Abandoned, Unusable   for a look at what went wrong, until the run has a Confirmed one beyond them
    half saved  goes once its attempt has ended

Where the volume has no room for another checkpoint, only what a run could need stays.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from ppojob_contract.mailbox import CheckpointRef
from ppojob_operator.api.v1alpha1.spec import PPOJobSpec
from ppojob_operator.api.v1alpha1.status import CheckpointPhase, CheckpointStatus, PPOJobStatus, ResumePoint
from ppojob_operator.domain.best import best_checkpoints
from ppojob_operator.domain.checkpoints import JudgedCheckpoint
from ppojob_operator.domain.guardrails.cleanness import window
from ppojob_operator.domain.guardrails.guards import guards_of, is_validation_metric
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.observation import Observation
from ppojob_operator.domain.requested import wanted_point
from ppojob_operator.domain.source import whole_of_step
from ppojob_operator.domain.targets import checkpoints

ALWAYS_CONFIRMED = 2
"""The monitor refuses to delete these too."""

FREEING_DEADLINE = timedelta(seconds=60)

ROOM = 1.25
"""Times the largest checkpoint: what must be free for the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many of each kind stay."""

    confirmed: int
    unproven: int
    failed: int
    """Suspect, Abandoned and Unusable ones together."""


def limits(spec: PPOJobSpec) -> Limits:
    """As the spec says."""
    keep = spec.checkpoints.keep_last
    proving = window(spec)
    conditions = (item for guard in guards_of(spec) if guard.rolls_back for item in guard.conditions)
    if any(is_validation_metric(condition.metric) for condition in conditions):
        proving += spec.training.validate_every_steps
    return Limits(confirmed=keep, unproven=keep + math.ceil(proving / spec.checkpoints.every_steps), failed=keep)


TIGHT = Limits(confirmed=ALWAYS_CONFIRMED, unproven=1, failed=0)
"""On a volume that is almost full. A lost old checkpoint is better than a save that fails."""


def dispensable(
    checkpoints: Sequence[JudgedCheckpoint], needed: Collection[CheckpointRef], wanted: Limits
) -> tuple[CheckpointRef, ...]:
    """Those that may go, oldest first. `needed` ones stay in any phase."""
    confirmed = _in(checkpoints, CheckpointPhase.CONFIRMED)
    newest = max((ref.step for ref in confirmed), default=-1)
    under_proof = [ref for ref in _in(checkpoints, CheckpointPhase.COMPLETE) if ref.step > newest]
    failed = _in(checkpoints, CheckpointPhase.SUSPECT, CheckpointPhase.ABANDONED, CheckpointPhase.UNUSABLE)
    stays = {
        *needed,
        *_in(checkpoints, CheckpointPhase.SAVING),
        *_last(confirmed, max(wanted.confirmed, ALWAYS_CONFIRMED)),
        *_last(under_proof, max(wanted.unproven, 1)),
        *under_proof[:1],
        *_last([ref for ref in failed if ref.step > newest], wanted.failed),
    }
    return tuple(sorted((item.ref for item in checkpoints if item.ref not in stays), key=_age))


def deletable(observation: Observation, judgement: Judgement, status: PPOJobStatus) -> tuple[CheckpointRef, ...]:
    """What to delete now. `status` is the new one: what has just been decided is needed already."""
    accepted, state = observation.accepted, observation.monitor.state
    if accepted is None or judgement.checkpoints is None or state is None or status.finished is not None:
        return ()
    wanted = TIGHT if almost_full(judgement.checkpoints, state.free_bytes) else limits(accepted.spec)
    half_saved = _half_saved(observation, judgement)
    kept = [item for item in judgement.checkpoints if item.ref not in half_saved]
    best = best_checkpoints(accepted.spec.checkpoints.keep_best, kept, observation.monitor.rows)
    damaged = _damaged(judgement, frozenset(state.confirmed))
    needed = frozenset(_refs([*_in_use(status, judgement), *_asked_for(status, accepted, judgement), *best, *damaged]))
    gone = dispensable(kept, needed, wanted)
    return (*sorted(half_saved - needed, key=_age), *gone)


def must_free_space(observation: Observation, judgement: Judgement) -> bool:
    """Whether an attempt had better wait until something is deleted: it could not even write its own files. Not for
    ever: what the monitor will not delete does not keep a run from being tried.
    """
    status, state = observation.job.status, observation.monitor.state
    if state is None or not almost_full(judgement.checkpoints or (), state.free_bytes):
        return False
    since = status.attempt.ended if status.attempt else None
    patient = since is not None and observation.now - since < FREEING_DEADLINE
    return patient and bool(deletable(observation, judgement, status))


def never_deleted(items: Sequence[CheckpointStatus]) -> tuple[CheckpointStatus, ...]:
    """Of these, what no rule above would have deleted: when it is gone, somebody else did it."""
    by_age = sorted(items, key=lambda item: (item.step, item.attempt))
    confirmed = [item for item in by_age if item.phase is CheckpointPhase.CONFIRMED]
    whole = [item for item in by_age if item.phase in {CheckpointPhase.CONFIRMED, CheckpointPhase.COMPLETE}]
    newest = [item for item in whole[-1:] if item not in confirmed[-ALWAYS_CONFIRMED:]]
    return (*confirmed[-ALWAYS_CONFIRMED:], *newest)


def almost_full(checkpoints: Sequence[JudgedCheckpoint], free_bytes: int | None) -> bool:
    """Whether the next save may not find room."""
    largest = max((item.size_bytes for item in checkpoints), default=0)
    return free_bytes is not None and free_bytes < ROOM * largest


def _in_use(status: PPOJobStatus, judgement: Judgement) -> Iterable[ResumePoint | CheckpointRef]:
    """What is or may soon be loaded."""
    if status.intent is not None and status.intent.resume is not None:
        yield status.intent.resume
    if status.attempt is not None and status.attempt.resume is not None:
        yield status.attempt.resume
    command = judgement.attempt_state.command if judgement.attempt_state else None
    if command is not None and command.target is not None:
        yield command.target


def _asked_for(status: PPOJobStatus, accepted: AcceptedJob, judgement: Judgement) -> Iterable[ResumePoint]:
    """By a person, by its step: to go back to, or to compare the trained model with."""
    evaluation = accepted.spec.evaluation
    step = evaluation.baseline.step if evaluation is not None else None
    baseline = whole_of_step(checkpoints(status, judgement), step) if step is not None else None
    return [point for point in (wanted_point(status, accepted, judgement), baseline) if point is not None]


def _damaged(judgement: Judgement, confirmed: frozenset[CheckpointRef]) -> Iterable[CheckpointRef]:
    """Confirmed ones that cannot be loaded now: a volume may come to its senses, or a person mend them."""
    whole = judgement.confirmed
    for item in judgement.checkpoints or ():
        newer = sum(ref.step > item.ref.step for ref in whole)
        if item.phase is CheckpointPhase.UNUSABLE and item.ref in confirmed and newer < ALWAYS_CONFIRMED:
            yield item.ref


def _half_saved(observation: Observation, judgement: Judgement) -> frozenset[CheckpointRef]:
    """Folders that a crash left without a manifest: they never were checkpoints. One that was Confirmed is another
    matter, and the live attempt may be writing.
    """
    state, attempt = observation.monitor.state, observation.job.status.attempt
    assert state is not None, "the claim was looked at"
    live = attempt.number if attempt and attempt.ended is None else None
    confirmed = {*state.confirmed, *judgement.confirmed}
    return frozenset(
        item.ref
        for item in state.checkpoints
        if item.world_size is None and not item.saving and item.ref.attempt != live and item.ref not in confirmed
    )


def _in(checkpoints: Sequence[JudgedCheckpoint], *phases: CheckpointPhase) -> list[CheckpointRef]:
    return sorted((item.ref for item in checkpoints if item.phase in phases), key=_age)


def _last(refs: Sequence[CheckpointRef], count: int) -> Sequence[CheckpointRef]:
    return refs[-count:] if count else ()


def _refs(points: Iterable[ResumePoint | CheckpointRef]) -> Iterable[CheckpointRef]:
    return (CheckpointRef(attempt=point.attempt, step=point.step) for point in points)


def _age(ref: CheckpointRef) -> tuple[int, int]:
    return ref.step, ref.attempt
