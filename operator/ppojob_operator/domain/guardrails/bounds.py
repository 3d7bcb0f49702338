"""The bound of a condition, and when a value is out of it."""

import math

from ppojob_operator.api.v1alpha1.guardrails import FINITE, Condition, Side


def figure(condition: Condition) -> str:
    """What is measured: the name of a figure, verl's key, or the query."""
    return condition.metric or condition.promql or ""


def only_finite(condition: Condition) -> bool:
    """Whether every finite value keeps the bound."""
    if condition.relative_to is not None:
        return False
    above = condition.above is None or condition.above >= FINITE
    below = condition.below is None or condition.below <= -FINITE
    return above and below


def upward(condition: Condition) -> bool:
    """Whether a relative condition is bad above its bound: so is a factor above 1, or something to add."""
    if condition.bad is not None:
        return condition.bad is Side.ABOVE
    return condition.ratio > 1 if condition.ratio is not None else (condition.by or 0.0) > 0


def limits(condition: Condition, reference: float | None) -> tuple[float | None, float | None] | None:
    """(above, below) as numbers; None where there is nothing to compare with."""
    if condition.relative_to is None:
        return condition.above, condition.below
    if reference is None:
        return None
    if condition.ratio is not None:
        if reference < 0:
            return None  # twice a debt is less, not more
        bound = reference * condition.ratio
    else:
        bound = reference + (condition.by or 0.0)
    return (bound, None) if upward(condition) else (None, bound)


def violated(above: float | None, below: float | None, value: float) -> bool:
    """Whether the value is out of bounds. What is not finite is out of all: it was measured, and it is no number."""
    if not math.isfinite(value):
        return True
    return (above is not None and value > above) or (below is not None and value < below)


def in_words(condition: Condition, reference: float | None = None) -> str:
    """The bound as a person would say it."""
    if condition.relative_to is None:
        return _absolute(condition)
    side = "above" if upward(condition) else "below"
    name = condition.relative_to.value
    found = limits(condition, reference)
    number = "" if found is None else f" = {next(item for item in found if item is not None):.6g}"
    if condition.ratio is not None:
        return f"{side} {condition.ratio:g} x {name}{number}"
    by = condition.by or 0.0
    return f"{side} {name} {'+' if by > 0 else '-'} {abs(by):g}{number}"


def _absolute(condition: Condition) -> str:
    if only_finite(condition):
        return "not finite"
    parts = [] if condition.above is None else [f"above {condition.above:g}"]
    if condition.below is not None:
        parts.append(f"below {condition.below:g}")
    return " or ".join(parts)
