"""A guardrail's verdict as the status tells it."""

from ppojob_operator.api.v1alpha1.status import GuardrailStatus, MeasuredCondition, Verdict
from ppojob_operator.domain.guardrails.bounds import figure, in_words
from ppojob_operator.domain.guardrails.episodes import Assessment
from ppojob_operator.domain.guardrails.guards import Guard
from ppojob_operator.domain.guardrails.queries import Queries

_MESSAGE, _WORDS = 1024, 256


def guardrail_status(item: Assessment, queries: Queries | None, silence: str = "") -> GuardrailStatus:
    """`silence`: why nothing is known of the training at all; empty where it is."""
    guard = item.guardrail
    verdict, message = _verdict(item, silence or _unanswered(guard, queries))
    return GuardrailStatus(
        name=guard.name,
        preset=guard.preset,
        action=guard.action,
        dry_run=guard.dry_run,
        verdict=verdict,
        failing=item.failing,
        bound=bound(guard),
        conditions=_conditions(item),
        step=item.step,
        message=message[:_MESSAGE],
    )


def _unanswered(guard: Guard, queries: Queries | None) -> str:
    """Why its queries have no results; empty where it has none or they have."""
    asked = [condition.promql for condition in guard.conditions if condition.promql is not None]
    if not asked:
        return ""
    if queries is None:
        return "this operator has no Prometheus to ask (chart value prometheus.url)"
    if queries.silent_seconds > 2 * queries.interval_seconds:
        return queries.silence
    return next((queries.refusals[query] for query in asked if query in queries.refusals), "")


def _verdict(item: Assessment, silence: str) -> tuple[Verdict, str]:
    if silence:
        return Verdict.INCONCLUSIVE, silence
    if item.missing is not None:
        return Verdict.INCONCLUSIVE, f"no row has {item.missing}"
    if item.no_result is not None:
        return Verdict.INCONCLUSIVE, f"not exactly one value at the newest step: {item.no_result}"
    if item.breach is None and item.incomparable is not None:
        return item.verdict, f"not judged: a ratio of {item.incomparable:.6g} says nothing; use by instead of ratio"
    return item.verdict, item.breach.summary if item.breach else ""


def bound(guard: Guard) -> str:
    """How many bad observations make a breach, in words."""
    what = "validations" if guard.validates else "steps"
    behind = f" after step {guard.after_step}" if guard.after_step else ""
    if guard.of == 1:
        return f"a single {what[:-1]}{behind}"
    many = f"{guard.count} {what} on end" if guard.count == guard.of else f"{guard.count} of the last {guard.of} {what}"
    return many + behind


def _conditions(item: Assessment) -> list[MeasuredCondition]:
    conditions, reading = item.guardrail.conditions, item.reading
    values = reading.values if reading else (None,) * len(conditions)
    references = reading.references if reading else (None,) * len(conditions)
    return [
        MeasuredCondition(
            figure=figure(condition),
            value=None if value is None else f"{value:.6g}",
            bad=in_words(condition, reference)[:_WORDS],
        )
        for condition, value, reference in zip(conditions, values, references, strict=True)
    ]
