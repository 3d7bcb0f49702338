"""Rows on their way from a file to Parquet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Message = Mapping[str, str]
"""`role` and `content`."""


@dataclass(frozen=True, slots=True)
class Raw:
    """A row as it is in its source; `number` is its line in a text file, else its place, from 1 on."""

    file: str
    number: int
    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Bad:
    """A row that cannot be used, and why."""

    file: str
    number: int
    reason: str

    def __str__(self) -> str:
        return f"line {self.number}: {self.reason}"


class RowError(Exception):
    """Why a row cannot be used; its text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Something to answer, with what a rule compares the answer with."""

    messages: Sequence[Message]
    ground_truth: str = ""
    style: str = "rule"
    ability: str | None = None
    """By a user's function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two answers to the same."""

    messages: Sequence[Message]
    chosen: str
    rejected: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a recipe makes of a row; nothing at all where a user's function leaves it out."""

    prompts: tuple[Prompt, ...] = ()
    pairs: tuple[Pair, ...] = ()
