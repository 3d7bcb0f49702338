"""Which pairs can be trained on. What is left out is counted, and the first of each kind named."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ppojob_trainer.errors import DataError
from ppojob_trainer.stages.conversations import Conversation, answered, prompt_of

Encode = Callable[[list[Conversation]], list[list[int]]]
"""Conversations to tokens."""

COLUMNS = ("prompt", "chosen", "rejected")
_NAMED = 20
"""Rows that the report names of each kind."""


@dataclass(slots=True)
class Counts:
    """Of one split."""

    rows: int = 0
    kept: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    named: dict[str, list[str]] = field(default_factory=dict)
    """`file row n`, by kind."""

    def leave_out(self, kind: str, where: str) -> None:
        self.left_out[kind] += 1
        names = self.named.setdefault(kind, [])
        if len(names) < _NAMED:
            names.append(where)

    def told(self) -> str:
        return ", ".join(f"{number} {kind}" for kind, number in sorted(self.left_out.items())) or "none left out"

    def to_json(self) -> dict[str, Any]:
        return {"rows": self.rows, "kept": self.kept, "leftOut": dict(self.left_out), "first": self.named}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Counts":
        return cls(value["rows"], value["kept"], Counter(value["leftOut"]), dict(value["first"]))


@dataclass(frozen=True, slots=True)
class Pair:
    """Two conversations that differ in their last message."""

    where: str
    chosen: Conversation
    rejected: Conversation


def usable(rows: list[dict[str, Any]], path: str, first: int, counts: Counts) -> Iterator[Pair]:
    """Of the rows `first`, … of a file. Raises DataError, naming row and column, for what is no pair at all."""
    for number, row in enumerate(rows, start=first):
        counts.rows += 1
        where = f"{path} row {number}"
        chosen, rejected = row["chosen"], row["rejected"]
        try:
            prompt = prompt_of(row["prompt"])
        except ValueError as error:
            raise DataError(f"{where}, column prompt: {error}") from error
        for name, answer in (("chosen", chosen), ("rejected", rejected)):
            if answer is not None and not isinstance(answer, str):
                raise DataError(f"{where}, column {name}: an answer is a text, not {type(answer).__name__}")
        if not (chosen or "").strip() or not (rejected or "").strip() or not prompt:
            counts.leave_out("empty", where)
        elif chosen == rejected:
            counts.leave_out("identical", where)
        else:
            yield Pair(where, answered(prompt, chosen), answered(prompt, rejected))


def fitting(
    pairs: list[Pair], encode: Encode, max_length: int, counts: Counts
) -> Iterator[tuple[list[int], list[int]]]:
    """Tokens of the chosen and the rejected conversation, of pairs that are short enough."""
    tokens = encode([talk for pair in pairs for talk in (pair.chosen, pair.rejected)]) if pairs else []
    for index, pair in enumerate(pairs):
        chosen, rejected = tokens[2 * index], tokens[2 * index + 1]
        if max(len(chosen), len(rejected)) > max_length:
            counts.leave_out("tooLong", pair.where)
        elif chosen == rejected:
            counts.leave_out("identical", pair.where)  # a template may strip white space
        else:
            counts.kept += 1
            yield chosen, rejected
