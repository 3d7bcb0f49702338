"""Which checkpoint an attempt goes on from."""

import math

from ppojob_operator.api.v1alpha1.status import CheckpointPhase, CheckpointStatus, PPOJobStatus, ResumePoint
from ppojob_operator.domain.guardrails.episodes import Breach
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.lineage import contains, lineage


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
