"""PromQL of guardrails: what is known of each query at each row's time.

A row's time falls into a cell of a grid whose step is the scrape interval, and a query is asked for cells. So a row's
result is the same whether it was asked for alone or with a thousand others, soon or after a restart.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ppojob_contract.protocol import StepRow
from ppojob_operator.domain.guardrails.readings import UNASKED, Unasked

GIVE_UP_SECONDS = 300.0
"""A run that has ended waits so long for a Prometheus that does not answer."""


def cell(time: float, interval_seconds: float) -> int:
    """Number of the grid's cell."""
    return math.floor(time / interval_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Queries:
    """Results so far."""

    interval_seconds: float
    results: Mapping[str, Mapping[int, float | None]] = field(default_factory=dict)
    """By query and cell; None where it had not exactly one value then."""
    refusals: Mapping[str, str] = field(default_factory=dict)
    """Why Prometheus does not carry a query out."""
    silence: str = ""
    """Why it does not answer; empty where it does."""
    silent_seconds: float = 0.0

    def at(self, query: str, row: StepRow) -> float | Unasked | None:
        return self.results.get(query, {}).get(cell(row.time, self.interval_seconds), UNASKED)

    @property
    def given_up(self) -> bool:
        return self.silent_seconds >= GIVE_UP_SECONDS
