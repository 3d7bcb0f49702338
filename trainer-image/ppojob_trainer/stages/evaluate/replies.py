"""What the models answered, kept as it comes, so that a killed run does not ask again."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ppojob_trainer.stages.evaluate import journal
from ppojob_trainer.stages.evaluate.questions import Question


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's answers to one question, one a turn."""

    number: int
    texts: tuple[str, ...]
    tokens: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        return {"number": self.number, "texts": list(self.texts), "tokens": list(self.tokens)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(value["number"], tuple(value["texts"]), tuple(value["tokens"]))


def file_of(work: Path, side: str, rank: int) -> Path:
    return work / f"answers-{side}-{rank:03d}.jsonl"


def kept(work: Path, side: str) -> dict[int, Reply]:
    """All that any process of any run has left, by question."""
    found = (value for path in sorted(work.glob(f"answers-{side}-*.jsonl")) for value in journal.read(path))
    return {reply.number: reply for reply in map(Reply.from_json, found)}


def keep(path: Path, replies: Iterable[Reply]) -> None:
    journal.append(path, [reply.to_json() for reply in replies])


def batches(questions: Sequence[Question], size: int, rank: int, ranks: int) -> list[list[Question]]:
    """Those of one of several processes. A question is always in the same company, whatever was answered before:
    with sampling, and by rounding, an answer depends on it.
    """
    all_batches = [list(questions[start : start + size]) for start in range(0, len(questions), size)]
    return all_batches[rank::ranks]
