"""How much of what was trained and held was worth it.

Kept in the status as sums, since its history of attempts is short: each pass adds the rows behind the last step that
the status knows, so a repeated pass adds nothing twice and a restarted operator nothing at all.
"""

import math
from collections.abc import Sequence
from datetime import datetime
from itertools import takewhile

from ppojob_contract.journal import RowKind
from ppojob_contract.protocol import StepRow
from ppojob_operator.api.v1alpha1.status import Goodput, PPOJobStatus
from ppojob_operator.domain.lineage import lineage
from ppojob_operator.domain.observation import Observation


def goodput(observation: Observation, status: PPOJobStatus) -> Goodput:
    """That of the new status, which has all but this."""
    old = observation.job.status
    rows = _new_rows(observation, old, status)
    return old.goodput.model_copy(
        update={
            "steps": old.goodput.steps + len(rows),
            "useful_steps": useful_steps(status),
            "training_seconds": round(old.goodput.training_seconds + sum(map(_seconds, rows)), 3),
            **_held(old.goodput, held=bool(observation.clusters), now=observation.now),
        }
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


def _new_rows(observation: Observation, old: PPOJobStatus, new: PPOJobStatus) -> Sequence[StepRow]:
    """Step rows of the attempt behind what the old status knows, up to what the new one knows; newest first."""
    if new.attempt is None or new.attempt.last_step is None:
        return ()
    number, through = new.attempt.number, new.attempt.last_step
    known = old.attempt.last_step if old.attempt is not None and old.attempt.number == number else None
    rows = (row for row in reversed(observation.monitor.rows.get(number, ())) if row.kind is RowKind.STEP)
    return [row for row in takewhile(lambda row: known is None or row.step > known, rows) if row.step <= through]


def _seconds(row: StepRow) -> float:
    value = row.values.get("stepSeconds", 0.0)
    return value if math.isfinite(value) else 0.0


def _held(old: Goodput, *, held: bool, now: datetime) -> dict[str, object]:
    if held:
        return {"held_since": old.held_since or now}
    return {"held_since": None, "held_seconds": round(held_seconds(old, now), 3)}
