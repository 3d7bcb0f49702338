# mypy: disable-error-code="import"
"""Which rows are for validation: decided by each row's prompt and the seed, not by where it stands.

A row keeps its side when others are added, and the same prompt is never on both.
"""

import hashlib
import json
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from ppojob_trainer.stages.prepare import parquet
from ppojob_trainer.stages.prepare.parquet import Writer
from ppojob_trainer.stages.prepare.rows import Message

_DRAW = "draw"
_BYTES = 8


def draw(seed: int, messages: Sequence[Message]) -> float:
    """From 0 to below 1; below `validationFraction` a row is for validation."""
    text = json.dumps([[message["role"], message["content"]] for message in messages])
    digest = hashlib.sha256(f"{seed}\n{text}".encode()).digest()
    return int.from_bytes(digest[:_BYTES], "big") / (1 << (8 * _BYTES))


class Sides:
    """The two files of one kind of rows.

    Where there are more rows for validation than `most`, those with the smallest draws stay, and the others are for
    training; that is known at the end only, so rows for validation wait in a file beside.
    """

    def __init__(
        self, train: Path, validation: Path, waiting: Path, schema: pa.Schema, *, fraction: float, most: int | None
    ) -> None:
        self.train = Writer(train, schema)
        self.validation = Writer(validation, schema)
        self._waiting = Writer(waiting, schema.append(pa.field(_DRAW, pa.float64())))
        self._draws = array("d")
        self._fraction, self._most = fraction, most

    @property
    def rows(self) -> int:
        return self.train.rows + len(self._draws)

    def add(self, row: Mapping[str, Any], drawn: float) -> None:
        if drawn < self._fraction:
            self._draws.append(drawn)
            self._waiting.add({**row, _DRAW: drawn})
        else:
            self.train.add(_on(row, "train"))

    def close(self) -> None:
        self._waiting.close()
        limit = sorted(self._draws)[self._most] if self._most is not None and len(self._draws) > self._most else 1.0
        waiting, self._draws = len(self._draws), array("d")
        for raw in parquet.read(self._waiting.path) if waiting else ():
            row = dict(raw.value)
            kept = row.pop(_DRAW) < limit
            side, name = (self.validation, "validation") if kept else (self.train, "train")
            side.add(_on(row, name))
        self.train.close()
        self.validation.close()
        self._waiting.path.unlink(missing_ok=True)


def _on(row: Mapping[str, Any], side: str) -> Mapping[str, Any]:
    """Verl's rows name their side."""
    return {**row, "extra_info": {**row["extra_info"], "split": side}} if "extra_info" in row else row
