"""What a row says of the weights, and when that is enough to trust a checkpoint.

A row describes the weights that the step before it made, so checkpoint N is judged by the rows behind N. Confirmed
needs W clean rows behind it and the W rows up to it clean, W = max(confirmSteps, longest forSteps or failing.of of a
Rollback guardrail): with less, a run that is bad from step 30 and found bad at 50 would confirm its checkpoint 40 at
45.
"""

import bisect
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from ppojob_contract.protocol import StepRow
from ppojob_operator.api.v1alpha1.spec import PPOJobSpec
from ppojob_operator.api.v1alpha1.status import CheckpointPhase
from ppojob_operator.domain.guardrails.guards import Guard, guards_of
from ppojob_operator.domain.guardrails.readings import Reading, State


class Cleanness(Enum):
    """What one step row says of the weights it describes."""

    CLEAN = auto()
    UNCLEAN = auto()
    UNKNOWN = auto()
    """A figure that a Rollback guardrail needs is absent: the row proves nothing."""
    PENDING = auto()
    """A query was not asked yet: the row may still turn out unclean, so nothing behind it counts."""


def window(spec: PPOJobSpec) -> int:
    """W, in steps. What is not finite needs none: a single such row is unclean, and verl skips its update."""
    widths = [guard.of for guard in guards_of(spec) if guard.rolls_back and not guard.about_finiteness]
    return max([spec.checkpoints.confirm_steps, *widths])


def cleanness(row: StepRow, readings: Iterable[tuple[Guard, Reading]]) -> Cleanness:
    """Judges a step row by the raw conditions of Rollback guardrails: counts and `afterStep` do not matter here."""
    if not math.isfinite(row.values.get("gradNorm", 0.0)):
        return Cleanness.UNCLEAN
    open_ones = []
    for guard, reading in readings:
        if reading.clean is False:
            return Cleanness.UNCLEAN
        if reading.clean is None and not guard.about_finiteness:
            open_ones.append(reading)
    if any(reading.state is State.PENDING for reading in open_ones):
        return Cleanness.PENDING
    return Cleanness.UNKNOWN if open_ones else Cleanness.CLEAN


Trust = tuple[CheckpointPhase, str]
"""Complete, Suspect or Confirmed, and why not more."""


@dataclass(slots=True)
class CleanRows:
    """The rows of a lineage, judged. Steps never decrease along it."""

    window: int
    steps: list[int] = field(default_factory=list)
    verdicts: list[Cleanness] = field(default_factory=list)
    validations: dict[str, list[tuple[int, bool]]] = field(default_factory=dict)
    """(step, clean) of each Rollback guardrail on validation figures, by its name."""

    def add(self, step: int, verdict: Cleanness) -> None:
        self.steps.append(step)
        self.verdicts.append(verdict)

    def trust(self, step: int, *, through: float = math.inf, finished: bool = False) -> Trust:
        """Of the checkpoint of that step. Rows behind `through` prove nothing; `finished` waives what is lacking."""
        first, after = bisect.bisect_right(self.steps, step - self.window), bisect.bisect_right(self.steps, step)
        last = len(self.steps) if through == math.inf else bisect.bisect_right(self.steps, through)
        for index in range(first, min(after, last)):
            if self.verdicts[index] is Cleanness.UNCLEAN:
                return CheckpointPhase.SUSPECT, f"step {self.steps[index]} was not clean"
            if self.verdicts[index] in {Cleanness.UNKNOWN, Cleanness.PENDING}:
                return CheckpointPhase.COMPLETE, f"step {self.steps[index]} lacks a guardrail's figure"
        clean = 0
        for index in range(after, last):
            if self.verdicts[index] is Cleanness.UNCLEAN:
                return CheckpointPhase.SUSPECT, f"step {self.steps[index]} was not clean"
            if self.verdicts[index] is Cleanness.PENDING:
                return CheckpointPhase.COMPLETE, f"step {self.steps[index]} waits for Prometheus"
            clean += self.verdicts[index] is Cleanness.CLEAN
            if clean >= self.window:
                break
        return self._validated(step, through, clean, finished=finished)

    def _validated(self, step: int, through: float, clean: int, *, finished: bool) -> Trust:
        found = [_first_at(step, seen, through) for seen in self.validations.values()]
        for validation in found:
            if validation is not None and not validation[1]:
                return CheckpointPhase.SUSPECT, f"the validation at step {validation[0]} was not clean"
        if clean < self.window and not finished:
            return CheckpointPhase.COMPLETE, f"{clean} of {self.window} clean steps behind it"
        if None in found:
            return CheckpointPhase.COMPLETE, "no validation behind it yet"
        return CheckpointPhase.CONFIRMED, ""


def _first_at(step: int, seen: Sequence[tuple[int, bool]], through: float) -> tuple[int, bool] | None:
    """The first validation of those weights or later ones."""
    index = bisect.bisect_left(seen, step, key=lambda item: item[0])
    return seen[index] if index < len(seen) and seen[index][0] <= through else None
