"""A run at rest, above all by a pause that no person asked for: what it is, and how a person ends it."""

from datetime import timedelta

from ppojob_operator.api.v1alpha1.status import PausedBy, PPOJobStatus
from ppojob_operator.domain.decisions import Wait

RESTING = "Suspended"
"""Reason of the wait."""

HOW_TO_GO_ON = "to go on, mend what is wrong, then change spec.restart.nonce, or set spec.suspend to true and to false"


def paused(status: PPOJobStatus) -> bool:
    """Whether the run waits for a person."""
    return status.paused_by is not None and not status.paused_by.released


def resting(status: PPOJobStatus) -> Wait:
    """Nothing runs, by `spec.suspend` or by a pause; says how the run goes on."""
    message = "nothing runs; spec.suspend: false goes on"
    if status.paused_by is not None and paused(status):
        message = f"{status.paused_by.message}; {HOW_TO_GO_ON}"
    return Wait(reason=RESTING, message=message, requeue=timedelta(hours=1))


def acknowledged(status: PPOJobStatus, attempt: int) -> bool:
    """Whether a person has seen what that attempt breached and chose to go on all the same."""
    return status.paused_by is not None and status.paused_by.released and status.paused_by.attempt == attempt


def released(pause: PausedBy | None) -> PausedBy | None:
    """The pause once a person has taken over."""
    return pause.model_copy(update={"released": True}) if pause else None
