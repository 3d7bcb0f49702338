"""What came of the rows: counted, never silently dropped."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ppojob_trainer.errors import DataError
from ppojob_trainer.stages.prepare.rows import Bad

LISTED = 20
"""Bad rows that are told of one by one."""

PARTS = 20
"""Sources, and abilities, that have a figure of their own; a stage has 64 in all."""

_NAME_CHARACTERS = 63
_IN_MESSAGE = 3
_REASON_CHARACTERS = 110


@dataclass(slots=True)
class OfSource:
    """Of one source's rows."""

    recipe: str
    rows_in: int = 0
    rows_out: int = 0
    """Rows that gave something."""
    too_long: int = 0
    """Rows that gave nothing since all of it was too long."""
    prompts_too_long: int = 0
    """Left out, of all rows: a user's function may give several."""
    left_out: int = 0
    """By the user's function."""
    bad: int = 0
    without_answer: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "recipe": self.recipe,
            "rowsIn": self.rows_in,
            "rowsOut": self.rows_out,
            "rowsTooLong": self.too_long,
            "promptsTooLong": self.prompts_too_long,
            "rowsLeftOutByFunction": self.left_out,
            "rowsBad": self.bad,
            "promptsWithoutAnswer": self.without_answer,
        }


@dataclass(slots=True)
class Tally:
    """Of all sources."""

    max_bad_rows: int
    sources: dict[str, OfSource] = field(default_factory=dict)
    abilities: Counter[str] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)
    """Rows by the tokens of their prompt, the too long ones too."""
    listed: list[Bad] = field(default_factory=list)

    def total(self, name: str) -> int:
        return sum(getattr(source, name) for source in self.sources.values())

    @property
    def dropped(self) -> int:
        return self.total("rows_in") - self.total("rows_out")

    def bad(self, source: OfSource, row: Bad) -> None:
        """Raises DataError once there are more than are tolerated and enough of them to tell of."""
        source.bad += 1
        if len(self.listed) < LISTED:
            self.listed.append(row)
        if len(self.listed) == LISTED and self.total("bad") > self.max_bad_rows:
            self.check(at_least=True)

    def check(self, *, at_least: bool = False) -> None:
        """Raises DataError where there are more bad rows than are tolerated."""
        count = self.total("bad")
        if count <= self.max_bad_rows:
            return
        rows = "; ".join(
            _shown(row, self.listed[at - 1] if at else None) for at, row in enumerate(self.listed[:_IN_MESSAGE])
        )
        more = f"; and {count - _IN_MESSAGE} more, see bad-rows.json of this run" if count > _IN_MESSAGE else ""
        raise DataError(
            f"{'at least ' if at_least else ''}{count} bad row{'s' if count > 1 else ''}, maxBadRows is "
            f"{self.max_bad_rows}: mend the file, or raise maxBadRows to leave them out. {rows}{more}"
        )

    def figures(self) -> dict[str, int]:
        return {
            "rowsIn": self.total("rows_in"),
            "rowsOut": self.total("rows_out"),
            "rowsDropped": self.dropped,
            "rowsTooLong": self.total("too_long"),
            "promptsTooLong": self.total("prompts_too_long"),
            "rowsLeftOutByFunction": self.total("left_out"),
            "rowsBad": self.total("bad"),
        }

    def parts(self) -> dict[str, int]:
        """Rows of each source and prompts of each ability, the largest; all are in the report."""
        rows = Counter({name: source.rows_out for name, source in self.sources.items()})
        return {
            **{f"rows/{name[:_NAME_CHARACTERS]}": count for name, count in rows.most_common(PARTS)},
            **{f"prompts/{name[:_NAME_CHARACTERS]}": count for name, count in self.abilities.most_common(PARTS)},
        }


def lengths_json(lengths: Counter[int]) -> dict[str, Any] | None:
    """Exact, but for the histogram, whose intervals double."""
    count = sum(lengths.values())
    if not count:
        return None
    ordered = sorted(lengths.items())
    histogram: Counter[int] = Counter()
    for length, rows in ordered:
        histogram[max(16, 1 << (length - 1).bit_length() if length else 1)] += rows
    return {
        "rows": count,
        "min": ordered[0][0],
        "mean": round(sum(length * rows for length, rows in ordered) / count, 2),
        "median": _quantile(ordered, count, 0.5),
        "p95": _quantile(ordered, count, 0.95),
        "max": ordered[-1][0],
        "histogram": [{"upTo": bound, "rows": histogram[bound]} for bound in sorted(histogram)],
    }


def _quantile(ordered: list[tuple[int, int]], count: int, share: float) -> int:
    seen = 0
    for length, rows in ordered:
        seen += rows
        if seen >= share * count:
            return length
    raise AssertionError("shares are below 1")


def _shown(row: Bad, before: Bad | None) -> str:
    reason = row.reason if len(row.reason) <= _REASON_CHARACTERS else f"{row.reason[: _REASON_CHARACTERS - 1]}…"
    file = "" if before is not None and before.file == row.file else f"{row.file} "
    return f"{file}line {row.number}: {reason}"
