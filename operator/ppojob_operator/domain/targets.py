"""Which checkpoint an attempt goes on from."""

import math

from ppojob_contract.journal import CHECKPOINT_SAVED
from ppojob_operator.api.v1alpha1.status import CheckpointPhase, CheckpointStatus, PPOJobStatus, ResumePoint
from ppojob_operator.domain.guardrails.episodes import Breach
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.lineage import contains, lineage
from ppojob_operator.domain.observation import Observation

UNLOADABLE = "CheckpointUnusable"
"""Reason of a restart for which nothing but the checkpoint is to blame."""


def checkpoints(status: PPOJobStatus, judgement: Judgement) -> list[CheckpointStatus]:
    """What is on the claim: as judged now, or as known from the last look."""
    if judgement.checkpoints is None:
        return list(status.checkpoints.items)
    return [
        CheckpointStatus(
            attempt=item.ref.attempt,
            step=item.ref.step,
            phase=item.phase,
            size_bytes=item.size_bytes,
            message=item.message[:1024],
        )
        for item in judgement.checkpoints
    ]


def newest(
    status: PPOJobStatus, judgement: Judgement, *phases: CheckpointPhase, before: float = math.inf
) -> ResumePoint | None:
    """The newest checkpoint of the current lineage in one of these phases and of an earlier step than `before`."""
    segments = lineage(status)
    found = [
        item
        for item in checkpoints(status, judgement)
        if item.phase in phases and item.step < before and contains(segments, item.attempt, item.step)
    ]
    best = max(found, key=lambda item: (item.step, item.attempt), default=None)
    return ResumePoint(attempt=best.attempt, step=best.step) if best else None


def restart_point(status: PPOJobStatus, judgement: Judgement) -> ResumePoint | None:
    """Where a run that did not go bad goes on: its newest whole checkpoint, proven or not, but not a suspect one."""
    return newest(status, judgement, CheckpointPhase.CONFIRMED, CheckpointPhase.COMPLETE)


def resume_point(status: PPOJobStatus, judgement: Judgement, target: ResumePoint | None) -> ResumePoint | None:
    """Where the next attempt begins: at a rollback's `target` or, where it was lost since, the Confirmed one before."""
    if target is None:
        return restart_point(status, judgement)
    found = [
        item for item in checkpoints(status, judgement) if (item.attempt, item.step) == (target.attempt, target.step)
    ]
    if any(item.phase is not CheckpointPhase.UNUSABLE for item in found):
        return target
    return newest(status, judgement, CheckpointPhase.CONFIRMED, before=target.step)


def all_lost(observation: Observation, judgement: Judgement) -> bool:
    """Whether there were checkpoints to go on from and none can be loaded: beginning anew would throw the run away."""
    status = observation.job.status
    segments = lineage(status)
    if status.attempt is not None and status.attempt.resume is not None:
        return True
    known = (item for item in checkpoints(status, judgement) if contains(segments, item.attempt, item.step))
    if any(item.phase is not CheckpointPhase.UNUSABLE for item in known):
        return False
    rows = observation.monitor.rows
    return any(row.event == CHECKPOINT_SAVED for segment in segments for row in rows.get(segment.attempt, ()))


def rollback_target(
    status: PPOJobStatus, judgement: Judgement, breach: Breach, min_healthy_steps: int
) -> ResumePoint | None:
    """The newest Confirmed checkpoint that the first bad row does not describe (row N describes checkpoint N-1).

    Where the same guardrail has taken the run back so shortly before, an older one than then, if there is one.
    """
    before, last = breach.first_step - 1, status.last_rollback
    found = newest(status, judgement, CheckpointPhase.CONFIRMED, before=before)
    again = last is not None and last.guardrail == breach.guardrail.name
    if last is None or not again or breach.step - last.target.step > min_healthy_steps:
        return found
    older = newest(status, judgement, CheckpointPhase.CONFIRMED, before=min(before, last.target.step))
    return older or found
