"""What has been used up of the limits. Progress, seen in the same pass, counts before the limit does."""

from ppojob_operator.api.v1alpha1.status import PPOJobStatus
from ppojob_operator.domain.judgement import Judgement


def rollbacks_without_progress(status: PPOJobStatus, judgement: Judgement) -> int:
    """Rollbacks since a checkpoint later than every breach before was confirmed."""
    progressed = any(item.step > status.rollback_mark for item in judgement.confirmed)
    return 0 if progressed else status.rollbacks_since_progress


def restarts_without_progress(status: PPOJobStatus, judgement: Judgement) -> int:
    """Restarts since a step later than that of the last restart. The status knows steps that were not read again."""
    last_row = judgement.last_row.step if judgement.last_row else 0
    recorded = status.attempt.last_step or 0 if status.attempt else 0
    return 0 if max(last_row, recorded) > status.restart_mark else status.restarts_since_progress
