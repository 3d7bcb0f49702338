"""What one row says of one guardrail."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from ppojob_contract.journal import RowKind
from ppojob_contract.protocol import StepRow
from ppojob_operator.api.v1alpha1.guardrails import Condition, Reference
from ppojob_operator.domain.guardrails.bounds import limits, violated
from ppojob_operator.domain.guardrails.guards import Guard, is_validation_metric
from ppojob_operator.domain.guardrails.references import Past, past_of


class Finding(Enum):
    """Of one condition on one row."""

    HOLDS = auto()
    CLEAR = auto()
    ABSENT = auto()
    """The row lacks the figure, or the query had not one value."""
    UNREFERENCED = auto()
    """There is nothing to compare with yet: the condition cannot hold."""
    PENDING = auto()
    """The query was not asked yet: nothing from this row on can be judged."""


class State(Enum):
    """Of all conditions together on one row."""

    BAD = auto()
    GOOD = auto()
    UNJUDGED = auto()
    """No observation: a figure is absent, or there is nothing to compare with."""
    PENDING = auto()


@dataclass(frozen=True, slots=True)
class Reading:
    """One guardrail on one row."""

    step: int
    findings: tuple[Finding, ...]
    values: tuple[float | None, ...]
    references: tuple[float | None, ...]
    row: int = 0
    """Which of the rows it is: a validation is behind or before the step of its number."""

    @property
    def state(self) -> State:
        found = self.findings
        if Finding.PENDING in found:
            return State.PENDING
        if Finding.ABSENT in found or Finding.UNREFERENCED in found:
            return State.UNJUDGED
        return State.GOOD if Finding.CLEAR in found else State.BAD

    @property
    def clean(self) -> bool | None:
        """Whether the weights that the row describes are cleared of this; None where the row proves nothing.

        One condition that does not hold clears them, whatever the others say.
        """
        found = self.findings
        if Finding.CLEAR in found or Finding.UNREFERENCED in found:
            return True
        return None if Finding.ABSENT in found or Finding.PENDING in found else False

    @property
    def incomparable(self) -> float | None:
        """A reference below 0 that a ratio says nothing about; None where there is none such."""
        found = zip(self.findings, self.references, strict=True)
        return next((reference for finding, reference in found if finding is Finding.UNREFERENCED and reference), None)

    @property
    def finite(self) -> bool:
        return all(value is None or math.isfinite(value) for value in self.values)


@dataclass(frozen=True, slots=True)
class Unasked:
    """A query's result that is not known yet."""


UNASKED = Unasked()
Results = Callable[[str, StepRow], float | Unasked | None]
"""A query's result at a row's time; None where it had not exactly one value."""


def no_queries(query: str, row: StepRow) -> float | Unasked | None:  # noqa: ARG001
    """Where there is no Prometheus to ask: never a value, and nothing to wait for."""
    return None


@dataclass(slots=True)
class Reader:
    """Reads one guard off the rows of a lineage, in order."""

    guard: Guard
    results: Results
    _pasts: Sequence[Past | None] = field(init=False)
    _kind: RowKind = field(init=False)
    _step: StepRow | None = field(init=False, default=None)
    """The newest step row, and what its figures are compared with: a validation is read together with them."""
    _references: Sequence[float | None] = field(init=False)

    def __post_init__(self) -> None:
        self._pasts = [
            past_of(condition, validation=is_validation_metric(condition.metric)) for condition in self.guard.conditions
        ]
        self._kind = RowKind.VALIDATION if self.guard.validates else RowKind.STEP
        self._references = [None] * len(self._pasts)

    def read(self, row: StepRow, number: int = 0) -> Reading | None:
        """None for a row of another kind."""
        reading = None
        if row.kind is self._kind:
            parts = [self._part(index, row) for index in range(len(self._pasts))]
            findings, values, references = zip(*parts, strict=True)
            reading = Reading(row.step, findings, values, references, number)
        if row.kind is RowKind.STEP:
            self._step, self._references = row, [self._reference(past, row) for past in self._pasts]
        self._remember(row)
        return reading

    @property
    def looks_back(self) -> bool:
        """Whether rows of earlier attempts matter to it."""
        return self.guard.rolls_back or any(past is not None for past in self._pasts)

    @property
    def follows_confirmed(self) -> bool:
        return any(condition.relative_to is Reference.CONFIRMED for condition in self.guard.conditions)

    def confirmed(self, step: int) -> None:
        """The checkpoint of that step has been confirmed."""
        for past in self._pasts:
            if past is not None:
                past.confirmed(step)

    def _part(self, index: int, row: StepRow) -> tuple[Finding, float | None, float | None]:
        condition, of_step = self.guard.conditions[index], not is_validation_metric(self.guard.conditions[index].metric)
        if row.kind is RowKind.VALIDATION and of_step:
            value = self._value(condition, self._step) if self._step is not None else None
            reference = self._references[index]
        else:
            value, reference = self._value(condition, row), self._reference(self._pasts[index], row)
        if isinstance(value, Unasked):
            return Finding.PENDING, None, reference
        if value is None:
            return Finding.ABSENT, None, reference
        bounds = limits(condition, reference)
        if bounds is None:
            return Finding.UNREFERENCED, value, reference
        return (Finding.HOLDS if violated(*bounds, value) else Finding.CLEAR), value, reference

    def _value(self, condition: Condition, row: StepRow) -> float | Unasked | None:
        if condition.promql is not None:
            return self.results(condition.promql, row)
        return row.values.get(condition.metric or "")

    @staticmethod
    def _reference(past: Past | None, row: StepRow) -> float | None:
        return past.value(row.step) if past is not None else None

    def _remember(self, row: StepRow) -> None:
        for condition, past in zip(self.guard.conditions, self._pasts, strict=True):
            if past is None or (row.kind is RowKind.VALIDATION) != is_validation_metric(condition.metric):
                continue
            value = self._value(condition, row)
            if value is not None and not isinstance(value, Unasked) and math.isfinite(value):
                past.add(row.step, value)
