"""Asks Prometheus what guardrails' queries were at the times of rows; few queries a pass, whatever is to be caught up.

Results are kept in memory only: a restarted operator asks again for the same cells and gets the same.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ppojob_contract.journal import RowKind
from ppojob_contract.protocol import StepRow
from ppojob_operator.domain.guardrails.queries import Queries, cell
from ppojob_operator.errors import QueryRefused, QueryUnavailable
from ppojob_operator.ports import Metrics

QUERIES_A_PASS = 8
CELLS_A_QUERY = 1000
"""Prometheus refuses more than 11,000 points of a series."""


@dataclass(slots=True)
class Arrivals:
    """Since when how many rows of an attempt are known.

    Two clocks are never compared: a row is as old as it is known.
    """

    settled: int = 0
    recent: deque[tuple[datetime, int]] = field(default_factory=deque)

    def count(self, known: int, now: datetime, patience: timedelta) -> int:
        """How many rows are known for so long."""
        if known > (self.recent[-1][1] if self.recent else self.settled):
            self.recent.append((now, known))
        while self.recent and now - self.recent[0][0] >= patience:
            self.settled = self.recent.popleft()[1]
        return self.settled


@dataclass(slots=True)
class AskedQueries:
    """What a worker knows of a job's queries."""

    results: dict[str, dict[int, float | None]] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    answered: datetime | None = None
    """When Prometheus answered last; before the first answer, when it was first asked."""
    silence: str = ""
    arrivals: dict[int, Arrivals] = field(default_factory=dict)


async def ask(
    metrics: Metrics, queries: Sequence[str], rows: Mapping[int, Sequence[StepRow]], asked: AskedQueries, now: datetime
) -> Queries:
    """Catches up with rows that are known for a scrape interval, so that what belongs to them was scraped."""
    asked.answered = asked.answered or now
    for query in asked.results.keys() - set(queries):
        del asked.results[query]
        asked.refusals.pop(query, None)
    cells = _settled_cells(rows, asked, now, metrics.interval_seconds) if queries else []
    left = QUERIES_A_PASS
    for query in queries:
        known = asked.results.setdefault(query, {})
        wanted = [at for at in cells if at not in known]
        if not wanted:
            continue
        if not left or not await _fetch(metrics, query, wanted, asked, now):
            break
        left -= 1
    return Queries(
        interval_seconds=metrics.interval_seconds,
        results=asked.results,
        refusals=asked.refusals,
        silence=asked.silence,
        silent_seconds=(now - asked.answered).total_seconds() if asked.silence else 0.0,
    )


def _settled_cells(
    rows: Mapping[int, Sequence[StepRow]], asked: AskedQueries, now: datetime, interval_seconds: float
) -> list[int]:
    for gone in asked.arrivals.keys() - rows.keys():
        del asked.arrivals[gone]
    found = set()
    for attempt, known in rows.items():
        arrivals = asked.arrivals.setdefault(attempt, Arrivals())
        settled = arrivals.count(len(known), now, timedelta(seconds=interval_seconds))
        found |= {cell(row.time, interval_seconds) for row in known[:settled] if row.kind is RowKind.STEP}
    return sorted(found)


async def _fetch(metrics: Metrics, query: str, wanted: Sequence[int], asked: AskedQueries, now: datetime) -> bool:
    """Oldest cells first: a guardrail is judged row by row. False where Prometheus does not answer."""
    wanted = [at for at in wanted if at < wanted[0] + CELLS_A_QUERY]
    found: Mapping[int, float] = {}
    try:
        found = await metrics.values(query, wanted[0], wanted[-1])
        asked.refusals.pop(query, None)
    except QueryRefused as error:
        asked.refusals[query] = str(error)
    except QueryUnavailable as error:
        asked.silence = str(error)
        return False
    asked.silence, asked.answered = "", now
    asked.results[query].update({at: found.get(at) for at in wanted})
    return True
