"""What a dashboard shows, apart from how Grafana writes it down."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

OF_JOB: Final = ('namespace="$namespace"', 'ppojob="$job"')
"""Matchers of the job that is chosen."""
OF_JOBS: Final = ('namespace=~"$namespace"', 'ppojob=~"$job"')
"""Matchers of all jobs that are chosen."""


class Look(StrEnum):
    """How a panel is drawn."""

    CURVES = "timeseries"
    STACK = "stack"
    NUMBER = "stat"
    TABLE = "table"
    STATES = "state-timeline"


@dataclass(frozen=True, slots=True)
class Query:
    """`legend` is a Grafana template over labels; in a table, the column's title."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """`good` says what a healthy run shows; it is the panel's description."""

    title: str
    good: str
    queries: tuple[Query, ...]
    unit: str = "short"
    look: Look = Look.CURVES
    width: int = 8
    height: int = 8
    bounds: tuple[tuple[float, str], ...] = ()
    """Values from which on a colour holds."""
    words: tuple[tuple[int, str, str], ...] = ()
    """Value, word and colour."""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A heading and what is below it."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """An annotation: drawn where the expression has a value."""

    name: str
    expression: str
    colour: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """`uid` never changes: links and bookmarks hang on it."""

    uid: str
    title: str
    about: str
    rows: tuple[Row, ...]
    many_jobs: bool = False
    """Several jobs can be chosen; else one."""
    has_jobs: bool = True
    marks: tuple[Mark, ...] = ()

    @property
    def panels(self) -> tuple[Panel, ...]:
        """All of them, in order."""
        return tuple(panel for row in self.rows for panel in row.panels)
