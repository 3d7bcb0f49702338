"""How much of what was trained and held was worth it.

What was trained is told by the monitor, which counts the journals of all attempts: nothing is counted twice or missed,
whoever looked when. What the monitor told last stays in the status when it is gone.
"""

from datetime import datetime

from ppojob_operator.api.v1alpha1.status import Goodput, PPOJobStatus
from ppojob_operator.domain.lineage import lineage
from ppojob_operator.domain.observation import Observation


def goodput(observation: Observation, status: PPOJobStatus) -> Goodput:
    """That of the new status, which has all but this."""
    old, state = observation.job.status.goodput, observation.monitor.state
    attempts = state.attempts if state else ()
    return Goodput(
        steps=max(old.steps, sum(item.steps for item in attempts)),
        useful_steps=useful_steps(status),
        training_seconds=max(old.training_seconds, round(sum(item.step_seconds for item in attempts), 3)),
        held_seconds=old.held_seconds if observation.clusters else round(held_seconds(old, observation.now), 3),
        held_since=(old.held_since or observation.now) if observation.clusters else None,
    )


def useful_steps(status: PPOJobStatus) -> int:
    """Steps that led to the weights of now; those behind a rollback's target count until the rollback is decided."""
    intent = status.intent
    if intent is not None and intent.resume is not None:
        return intent.resume.step - _first(status)
    attempt = status.attempt
    if attempt is None:
        return 0
    begun = attempt.resume.step if attempt.resume else 0
    return max(attempt.last_step or 0, begun) - _first(status)


def held_seconds(value: Goodput, now: datetime) -> float:
    """Up to now."""
    running = (now - value.held_since).total_seconds() if value.held_since else 0.0
    return value.held_seconds + max(0.0, running)


def _first(status: PPOJobStatus) -> int:
    """Step at which the first attempt of today's weights began: not 0 where it came from elsewhere."""
    return next((segment.after for segment in lineage(status)), 0)
