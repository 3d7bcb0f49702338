"""Guardrails as a fold over an attempt's journal rows: the same verdict whatever the rhythm of looking."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ppojob_contract.figures import FIGURES, Need
from ppojob_contract.journal import RowKind
from ppojob_contract.protocol import StepRow
from ppojob_operator.api.v1alpha1.spec import Condition, Guardrail, GuardrailAction
from ppojob_operator.api.v1alpha1.status import Verdict

MISSING_AFTER_ROWS = 20
"""A figure not seen in so many rows is reported as missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """The moment at which a guardrail had been violated for long enough."""

    guardrail: Guardrail
    first_step: int
    """First of the consecutive bad observations."""
    step: int
    value: float

    @property
    def summary(self) -> str:
        condition = self.guardrail.conditions[0]
        return (
            f"{condition.metric} was {self.value:.6g} at step {self.step} ({describe(condition)}), "
            f"bad since step {self.first_step}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """A guardrail's fold over the rows of one attempt."""

    guardrail: Guardrail
    verdict: Verdict
    """Of the newest observation; `Inconclusive` is the observer's to add, since rows cannot know of silence."""
    episodes: tuple[Breach, ...]
    """Every time that it became breached, in order."""
    breach: Breach | None
    """The attempt's first breach that may act; it stays although later rows are good: no breach is missed."""
    failing: int
    value: float | None
    step: int | None
    missing: bool
    """Rows came, and never one with this figure."""


def describe(condition: Condition) -> str:
    """The bound in words."""
    parts = [] if condition.above is None else [f"above {condition.above:g}"]
    if condition.below is not None:
        parts.append(f"below {condition.below:g}")
    return "bad " + " or ".join(parts)


def violated(condition: Condition, value: float) -> bool:
    """Whether the value is out of bounds. NaN is out of every bound: it was measured, and it is no number."""
    if math.isnan(value):
        return True
    return (condition.above is not None and value > condition.above) or (
        condition.below is not None and value < condition.below
    )


def is_validation_metric(metric: str) -> bool:
    """Whether only validation rows carry it."""
    figure = FIGURES.get(metric)
    return metric.startswith("val-") or (figure is not None and figure.need is Need.VALIDATION)


def observations(guardrail: Guardrail, rows: Iterable[StepRow]) -> Iterable[tuple[int, float]]:
    """(step, value) of the rows that carry the guardrail's figure; an absent figure leaves the count."""
    metric = guardrail.conditions[0].metric
    kind = RowKind.VALIDATION if is_validation_metric(metric) else RowKind.STEP
    for row in rows:
        if row.kind is kind and metric in row.values:
            yield row.step, row.values[metric]


def assess(guardrail: Guardrail, rows: Sequence[StepRow], *, grace_through: int = 0) -> Assessment:
    """Folds the rows of one attempt.

    Rollback guardrails do not act up to and with step `grace_through`, but on a value that is not finite.
    """
    condition = guardrail.conditions[0]
    grace = grace_through if guardrail.action is GuardrailAction.ROLLBACK else 0
    failing, first, breach = 0, 0, None
    episodes: list[Breach] = []
    value: float | None = None
    step: int | None = None
    for step, value in observations(guardrail, rows):
        if step <= guardrail.after_step or not violated(condition, value):
            failing = 0
            continue
        first = step if failing == 0 else first
        failing += 1
        if failing < guardrail.for_steps:
            continue
        now = Breach(guardrail=guardrail, first_step=first, step=step, value=value)
        if failing == guardrail.for_steps:
            episodes.append(now)
        if breach is None and (step > grace or not math.isfinite(value)):
            breach = now
    return Assessment(
        guardrail=guardrail,
        verdict=_verdict(step, failing, guardrail),
        episodes=tuple(episodes),
        breach=breach,
        failing=failing,
        value=value,
        step=step,
        missing=step is None and sum(row.kind is RowKind.STEP for row in rows) >= MISSING_AFTER_ROWS,
    )


def _verdict(step: int | None, failing: int, guardrail: Guardrail) -> Verdict:
    if step is None or step <= guardrail.after_step:
        return Verdict.WAITING
    return Verdict.BREACHED if failing >= guardrail.for_steps else Verdict.HEALTHY


def first_breach(assessments: Iterable[Assessment]) -> Breach | None:
    """The earliest breach that must roll the run back (the spec's order decides between equals)."""
    breaches = [
        item.breach
        for item in assessments
        if item.breach and item.guardrail.action is GuardrailAction.ROLLBACK and not item.guardrail.dry_run
    ]
    return min(breaches, key=lambda breach: breach.step, default=None)
