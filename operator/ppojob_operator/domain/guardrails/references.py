"""What a value is compared with: the run's own past, along the rows that led to today's weights.

Each follows one figure. A row's value is added behind its judgement, so a reference never contains the row itself;
what is not finite is left out.
"""

import bisect
import math
from typing import Protocol, assert_never

from ppojob_operator.api.v1alpha1.guardrails import Condition, Reference
from ppojob_operator.domain.guardrails.bounds import upward

START_FIRST, START_LAST = 5, 15
"""Steps whose mean is Start: the first few are still noise of a warm-up, later ones are training."""


class Past(Protocol):
    """One figure's past."""

    def value(self, step: int) -> float | None:
        """The reference for a row of that step; None where there is none yet."""

    def add(self, step: int, value: float) -> None: ...

    def confirmed(self, step: int) -> None:
        """The checkpoint of that step has been confirmed."""


class _Plain:
    """What does not care about checkpoints."""

    def confirmed(self, step: int) -> None:  # noqa: ARG002
        return


class Start(_Plain):
    """Mean over steps 5 to 15; a figure that has none in those (a sparse one): its first value behind them."""

    def __init__(self) -> None:
        self._sum, self._count, self._later = 0.0, 0, math.nan

    def value(self, step: int) -> float | None:
        if step <= START_LAST:
            return None  # not all of them are in
        if self._count:
            return self._sum / self._count
        return None if math.isnan(self._later) else self._later

    def add(self, step: int, value: float) -> None:
        if START_FIRST <= step <= START_LAST:
            self._sum, self._count = self._sum + value, self._count + 1
        elif step > START_LAST and not self._count and math.isnan(self._later):
            self._later = value


class Best(_Plain):
    """The greatest value so far, or the smallest where greater is bad."""

    def __init__(self, *, smallest: bool) -> None:
        self._pick = min if smallest else max
        self._best: float | None = None

    def value(self, step: int) -> float | None:  # noqa: ARG002
        return self._best

    def add(self, step: int, value: float) -> None:  # noqa: ARG002
        self._best = value if self._best is None else self._pick(self._best, value)


class Median(_Plain):
    """The middle of all values so far."""

    def __init__(self) -> None:
        self._sorted: list[float] = []

    def value(self, step: int) -> float | None:  # noqa: ARG002
        count = len(self._sorted)
        if not count:
            return None
        return (self._sorted[(count - 1) // 2] + self._sorted[count // 2]) / 2

    def add(self, step: int, value: float) -> None:  # noqa: ARG002
        bisect.insort(self._sorted, value)


class Confirmed:
    """The value that describes the newest Confirmed checkpoint's weights."""

    def __init__(self, *, validation: bool) -> None:
        # Row N describes the weights of step N-1, a validation at step N those of step N.
        self._offset = 0 if validation else 1
        self._steps: list[int] = []
        self._values: list[float] = []
        self._checkpoint: int | None = None

    def value(self, step: int) -> float | None:  # noqa: ARG002
        if self._checkpoint is None:
            return None
        index = bisect.bisect_left(self._steps, self._checkpoint + self._offset)
        return self._values[index] if index < len(self._values) else None

    def add(self, step: int, value: float) -> None:
        self._steps.append(step)
        self._values.append(value)

    def confirmed(self, step: int) -> None:
        self._checkpoint = step


def past_of(condition: Condition, *, validation: bool) -> Past | None:
    """What follows the condition's figure; None where its bound is a number."""
    match condition.relative_to:
        case None:
            return None
        case Reference.START:
            return Start()
        case Reference.BEST:
            return Best(smallest=upward(condition))
        case Reference.MEDIAN:
            return Median()
        case Reference.CONFIRMED:
            return Confirmed(validation=validation)
        case other:
            assert_never(other)
