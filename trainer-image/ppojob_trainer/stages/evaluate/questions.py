"""The prompts of an evaluation: read, and drawn by the seed."""

import gzip
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from ppojob_trainer.errors import DataError
from ppojob_trainer.stages.conversations import Conversation, prompt_of
from ppojob_trainer.stages.evaluate.settings import Format, PromptSource

Row = tuple[str, Mapping[str, Any]]
"""Where it is, and its columns."""

LINE_LIMIT = 1 << 20
"""Bytes of a line of JSON; a longer one is no prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What both models are asked."""

    number: int
    where: str
    category: str
    opening: Conversation
    follow_ups: tuple[str, ...] = ()
    """What the user says after each answer (MT-Bench has a second turn)."""
    ground_truth: Any = None
    data_source: Any = None
    extra_info: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "where": self.where,
            "category": self.category,
            "opening": self.opening,
            "followUps": list(self.follow_ups),
            "groundTruth": self.ground_truth,
            "dataSource": self.data_source,
            "extraInfo": self.extra_info,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(
            number=value["number"],
            where=value["where"],
            category=value["category"],
            opening=value["opening"],
            follow_ups=tuple(value["followUps"]),
            ground_truth=value["groundTruth"],
            data_source=value["dataSource"],
            extra_info=value["extraInfo"],
        )

    def conversation(self, answers: Sequence[str]) -> Conversation:
        """The whole of it, as far as `answers` go; without the last answer's follow-up."""
        talk = list(self.opening)
        for turn, answer in enumerate(answers):
            if turn:
                talk.append({"role": "user", "content": self.follow_ups[turn - 1]})
            talk.append({"role": "assistant", "content": answer})
        return talk

    def prompt(self, answers: Sequence[str]) -> Conversation:
        """What the next answer is to."""
        talk = self.conversation(answers)
        return [*talk, {"role": "user", "content": self.follow_ups[len(answers) - 1]}] if answers else talk

    @property
    def turns(self) -> int:
        return 1 + len(self.follow_ups)


def parsed(number: int, row: Row, source: PromptSource) -> Question:
    """Raises DataError naming file, row and column."""
    where, columns = row
    try:
        opening, follow_ups = _prompt(columns, source)
    except (KeyError, ValueError) as error:
        said = f"has no column {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(f"{where}: {said}") from error
    if not opening:
        raise DataError(f"{where}: the prompt is empty")
    reward_model = columns.get("reward_model")
    return Question(
        number=number,
        where=where,
        category=_category(columns, source),
        opening=opening,
        follow_ups=follow_ups,
        ground_truth=reward_model.get("ground_truth") if isinstance(reward_model, Mapping) else None,
        data_source=columns.get("data_source"),
        extra_info=columns.get("extra_info"),
    )


def drawn(
    rows: Sequence[tuple[Row, PromptSource]], count: int, seed: int, fits: Callable[[Conversation], bool]
) -> tuple[list[Question], int]:
    """At most `count` in the order of the files, and how many were passed over because they do not fit."""
    order = list(range(len(rows)))
    random.Random(seed).shuffle(order)  # noqa: S311 - no secret
    chosen: list[Question] = []
    too_long = 0
    for number in order:
        if len(chosen) == count:
            break
        question = parsed(number, *rows[number])
        if fits(question.opening):
            chosen.append(question)
        else:
            too_long += 1
    return sorted(chosen, key=lambda question: question.number), too_long


def lines(path: str) -> Iterator[Row]:
    """Rows of a file of JSON lines, plain or gzipped. Raises DataError naming file and line."""
    number = 0
    opened = gzip.open if path.endswith(".gz") else open
    try:
        with opened(path, "rb") as file:
            while line := file.readline(LINE_LIMIT + 1):
                number += 1
                if len(line) > LINE_LIMIT:
                    raise DataError(f"{path} line {number}: longer than {LINE_LIMIT} bytes")
                if line.strip():
                    yield f"{path} line {number}", _object(line, f"{path} line {number}")
    except FileNotFoundError as error:
        raise DataError(f"{path} is not there") from error
    except (EOFError, gzip.BadGzipFile) as error:
        raise DataError(f"{path} cannot be unpacked behind line {number}: {error}") from error
    if number == 0:
        raise DataError(f"{path} is empty")


def _object(line: bytes, where: str) -> Mapping[str, Any]:
    try:
        value = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: not UTF-8 ({error.reason} at byte {error.start})") from error
    except ValueError as error:
        raise DataError(f"{where}: not JSON ({error})") from error
    if not isinstance(value, Mapping):
        raise DataError(f"{where}: not an object with columns")
    return value


def _prompt(columns: Mapping[str, Any], source: PromptSource) -> tuple[Conversation, tuple[str, ...]]:
    if source.format is Format.MT_BENCH:
        turns = columns["turns"]
        if not isinstance(turns, list) or not turns or not all(isinstance(turn, str) for turn in turns):
            raise ValueError("column turns is no list of texts")
        return prompt_of(turns[0]), tuple(turns[1:])
    return prompt_of(columns[source.prompt_column]), ()


MAX_CATEGORY = 63
"""Characters: it names a figure in the status and a series in Prometheus."""


def _category(columns: Mapping[str, Any], source: PromptSource) -> str:
    default = {Format.MT_BENCH: "category", Format.PARQUET: "ability", Format.JSONL: None}[source.format]
    column = source.category_column or default
    value = columns.get(column) if column else None
    return "" if value is None else str(value)[:MAX_CATEGORY]
