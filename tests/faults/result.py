"""A line of the table, and the lines that were measured so far."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.support.kube import REPOSITORY

MEASURED = REPOSITORY / "build" / "faults.json"
"""Kept from run to run, so that some lines can be measured again."""

Key = tuple[str, str, str]


@dataclass(slots=True)
class Result:
    """What came of one fault."""

    path: str
    """How the run rolls back where nothing is in the way: hot or cold."""
    what: str
    moment: str
    happened: str = ""
    seconds: float = 0.0
    """From the fault to the first step that was trained after it."""
    steps_again: int = 0
    lost: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        return not self.lost and not self.wrong

    @property
    def key(self) -> Key:
        return self.path, self.what, self.moment


def remember(result: Result, path: Path = MEASURED) -> None:
    """In place of what was measured of the same fault before."""
    kept = [item for item in measured(path) if item.key != result.key]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([asdict(item) for item in [*kept, result]], indent=1))


def measured(path: Path = MEASURED) -> list[Result]:
    if not path.exists():
        return []
    items = json.loads(path.read_text())
    return [Result(**{**item, "lost": tuple(item["lost"]), "wrong": tuple(item["wrong"])}) for item in items]


def table(results: Iterable[Result]) -> str:
    head = (
        "| rollback | what | when | what happened | trained on after | steps again | lost | wrong |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- |"
    )
    return "\n".join([head, *map(line, results)])


def line(result: Result) -> str:
    return (
        f"| {result.path} | {result.what} | {result.moment} | {result.happened} | {result.seconds:.1f} s | "
        f"{result.steps_again} | {'; '.join(result.lost) or '-'} | {'; '.join(result.wrong) or '-'} |"
    )
