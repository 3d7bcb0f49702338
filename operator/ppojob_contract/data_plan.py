"""Which prompts an attempt gets: the order of the data, and the steps whose prompts are left out.

The order of the data is a sequence of batches, numbered from 0 and through the ends of epochs. A journal's step rows
say which of them a step had; a plan names steps, and the trainer finds the batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self


class DataOrder(StrEnum):
    """What a rollback does about the prompts that the run had when it went bad."""

    SKIP_FAILING = "SkipFailing"
    REPLAY = "Replay"
    RESHUFFLE = "Reshuffle"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRange:
    """Steps `first` to `last`, both included, as the journal of that attempt has them."""

    attempt: int
    first: int
    last: int

    def to_json(self) -> dict[str, Any]:
        return {"attempt": self.attempt, "first": self.first, "last": self.last}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        return cls(attempt=int(value["attempt"]), first=int(value["first"]), last=int(value["last"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """What a step had of the data's order: batches `first` to `last`, both included."""

    order: str
    """Names one sequence of batches: the same for the same files, rows, batch size, seed and reshuffle."""
    reshuffle: int
    first: int
    last: int

    def to_json(self) -> dict[str, Any]:
        return {"order": self.order, "reshuffle": self.reshuffle, "first": self.first, "last": self.last}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError for what is not that."""
        return cls(
            order=str(value["order"]),
            reshuffle=int(value["reshuffle"]),
            first=int(value["first"]),
            last=int(value["last"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPlan:
    """Of one attempt, whole: it does not build on what an earlier attempt was told."""

    skip: Sequence[StepRange] = ()
    """Steps whose batches are passed over when the iterator comes to them again. Each attempt's `journal.jsonl` says
    which batch a step had."""
    reshuffle: int = 0
    """0: the order that `data.seed` gives. Else another order for each number, from its beginning."""
    incident: Sequence[StepRange] = ()
    """Steps that led to the last rollback, whatever it did about the data: their samples are kept."""

    def to_json(self) -> dict[str, Any]:
        return {
            "skip": [item.to_json() for item in self.skip],
            "reshuffle": self.reshuffle,
            "incident": [item.to_json() for item in self.incident],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Raises KeyError or ValueError for what is not a plan."""
        return cls(
            skip=tuple(StepRange.from_json(item) for item in value.get("skip", [])),
            reshuffle=int(value.get("reshuffle", 0)),
            incident=tuple(StepRange.from_json(item) for item in value.get("incident", [])),
        )
