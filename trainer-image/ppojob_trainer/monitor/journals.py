"""Journals read once: a row that has been folded in is not parsed again, unless somebody asks for it."""

import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from ppojob_contract import journal
from ppojob_contract.journal import Row, RowKind
from ppojob_contract.metrics import STEP_DURATION

DURATION_BOUNDS = STEP_DURATION.bounds


@dataclass(slots=True)
class Totals:
    """What the counters and gauges need of an attempt's rows; independent of how often it was read."""

    steps: int = 0
    tokens: float = 0.0
    seconds: float = 0.0
    durations: list[int] = field(default_factory=lambda: [0] * (len(DURATION_BOUNDS) + 1))
    """Steps in each interval of `DURATION_BOUNDS`, the last one open."""
    last: Row | None = None
    """Last step row."""
    validation: Row | None = None
    save_seconds: float | None = None

    def add(self, row: Row) -> None:
        if row.kind is RowKind.VALIDATION:
            self.validation = row
        if row.kind is not RowKind.STEP:
            return
        self.steps += 1
        self.last = row
        self.tokens += _finite(row.verl.get("perf/total_num_tokens"))
        self.save_seconds = row.verl.get("timing_s/save_checkpoint", self.save_seconds)
        duration = row.figures.get("stepSeconds")
        if duration is not None and math.isfinite(duration):
            self.seconds += duration
            self.durations[next((i for i, b in enumerate(DURATION_BOUNDS) if duration <= b), len(DURATION_BOUNDS))] += 1


class JournalReader:
    """One attempt's journal. `refresh` takes in what has been added; a file never shrinks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.totals = Totals()
        self._starts = array("Q")
        """Byte offsets at which reading each row begins."""
        self._end = 0

    @property
    def rows(self) -> int:
        return len(self._starts)

    def refresh(self) -> None:
        for row, end in journal.read(self.path, self._end):
            self._starts.append(self._end)
            self._end = end
            self.totals.add(row)

    def read(self, after: int, limit: int) -> Iterator[Row]:
        """Rows behind the first `after`, at most `limit` and none that `refresh` has not seen."""
        count = min(limit, self.rows - after)
        if after < 0 or count <= 0:
            return
        for row, _ in islice(journal.read(self.path, self._starts[after]), count):
            yield row


def _finite(value: float | None) -> float:
    return value if value is not None and math.isfinite(value) else 0.0
