"""Guardrails over rows that are all there."""

from collections.abc import Iterable, Sequence

from ppojob_contract.protocol import StepRow
from ppojob_operator.domain.guardrails.fold import Judged, begin
from ppojob_operator.domain.guardrails.guards import Guard
from ppojob_operator.domain.guardrails.readings import Results, no_queries


def judge_rows(
    guards: Sequence[Guard],
    rows: Iterable[tuple[int, StepRow]],
    *,
    attempt: int,
    window: int,
    grace_through: int = 0,
    results: Results = no_queries,
) -> Judged:
    """Folds (attempt, row) of a lineage from the first to the last."""
    fold = begin(guards, attempt=attempt, window=window, grace_through=grace_through, results=results)
    for number, row in rows:
        fold.see(number, row)
    return fold.judged()
