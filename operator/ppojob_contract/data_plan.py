"""Which prompts an attempt gets: the order of the data, and the steps whose prompts are left out."""

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
class DataPlan:
    """Of one attempt, whole: it does not build on what an earlier attempt was told."""

    skip: Sequence[StepRange] = ()
    """Steps whose batches are passed over when the iterator comes to them again. Each attempt's `journal.jsonl` says
    which batch a step had."""
    reshuffle: int = 0
    """0: the order that `data.seed` gives. Else another order for each number, from its beginning."""

    def to_json(self) -> dict[str, Any]:
        return {"skip": [item.to_json() for item in self.skip], "reshuffle": self.reshuffle}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Raises KeyError or ValueError for what is not a plan."""
        return cls(
            skip=tuple(StepRange.from_json(item) for item in value.get("skip", [])),
            reshuffle=int(value.get("reshuffle", 0)),
        )
