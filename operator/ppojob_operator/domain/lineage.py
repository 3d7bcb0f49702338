"""Which rows and checkpoints led to the weights that train now.

    attempt 1   1 ---------- 10 ------ 17 x          rolled back to 10
    attempt 2                10 ---------- 20 x      crashed, restarted from 20
    attempt 3                              20 ---->

The lineage of attempt 3 is (1, 0..10], (2, 10..20], (3, 20..]; steps 11..17 of attempt 1 are abandoned.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ppojob_contract.protocol import StepRow
from ppojob_operator.api.v1alpha1.status import AttemptStatus, PPOJobStatus


@dataclass(frozen=True, slots=True)
class Segment:
    """Steps of one attempt: behind `after`, up to and with `through`."""

    attempt: int
    after: int
    through: float

    def has(self, attempt: int, step: int) -> bool:
        return self.attempt == attempt and self.after < step <= self.through


def lineage(status: PPOJobStatus) -> tuple[Segment, ...]:
    """Segments of the current attempt's past, oldest first; empty before the first attempt."""
    known = {attempt.number: attempt for attempt in (*status.attempts, *_current(status))}
    segments: list[Segment] = []
    number = status.attempt.number if status.attempt else None
    through = math.inf
    while number is not None:
        attempt = known.get(number)
        if attempt is None:
            segments.append(Segment(number, 0, through))  # older than the recorded history
            break
        after = attempt.resume.step if attempt.resume else 0
        segments.append(Segment(number, after, through))
        number, through = (attempt.resume.attempt, after) if attempt.resume else (None, 0)
        if number is not None and number >= segments[-1].attempt:
            break  # an attempt resumes from an earlier one only; a damaged status must not loop
    return tuple(reversed(segments))


def _current(status: PPOJobStatus) -> tuple[AttemptStatus, ...]:
    return (status.attempt,) if status.attempt else ()


def contains(segments: Sequence[Segment], attempt: int, step: int) -> bool:
    """Whether that step of that attempt is part of the lineage."""
    return any(segment.has(attempt, step) for segment in segments)


def along(segments: Sequence[Segment], rows: Mapping[int, Sequence[StepRow]]) -> Iterator[tuple[int, StepRow]]:
    """(attempt, row) of the lineage, in order."""
    for segment in segments:
        for row in rows.get(segment.attempt, ()):
            if segment.after < row.step <= segment.through:
                yield segment.attempt, row
