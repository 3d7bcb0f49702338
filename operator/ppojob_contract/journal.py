"""The append-only record of an attempt: one JSON object a line.

    {"kind": "step", "step": 12, "epoch": 0, "time": 1.7e9, "figures": {"kl": 0.01}, "verl": {"actor/lr": 1e-6},
     "batches": {"order": "4f1e...", "reshuffle": 0, "first": 11, "last": 11}}
    {"kind": "validation", "step": 20, "time": ..., "figures": {"validationReward": 0.4}, "verl": {...}}
    {"kind": "event", "step": 10, "time": ..., "event": "CheckpointSaved", "message": "..."}

`figures` has the names of `ppojob_contract.figures`, `verl` verl's own keys. Row N describes the weights after
step N-1 (they generated the samples of step N), so checkpoint N is judged by rows after N only.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from ppojob_contract.data_plan import Batches
from ppojob_contract.durable import sync_directory
from ppojob_contract.numbers import number, plain

CHECKPOINT_SAVED = "CheckpointSaved"
"""Event of a checkpoint that is whole, at its step."""

REWARD_FAILED = "RewardFailed"
"""Event of a reward term's first failure in an attempt: `<term>: <error>`."""

REWARD_TERM = "reward_term/"
"""Before a term's name in `verl`: the mean of its own score over the step's samples. verl logs no parts of a reward."""


class RowKind(StrEnum):
    STEP = "step"
    VALIDATION = "validation"
    EVENT = "event"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a journal."""

    kind: RowKind
    step: int
    time: float
    """Seconds since the epoch, by the trainer's clock."""
    epoch: int = 0
    figures: Mapping[str, float] = field(default_factory=dict)
    verl: Mapping[str, float] = field(default_factory=dict)
    batches: Batches | None = None
    """Step rows: what was trained on; None in journals of earlier versions."""
    event: str = ""
    message: str = ""

    def value(self, metric: str) -> float | None:
        """The figure of that name, or the verl key where the name has a slash; None where the row lacks it."""
        return (self.verl if "/" in metric else self.figures).get(metric)

    def to_json(self) -> dict[str, Any]:
        row: dict[str, Any] = {"kind": self.kind.value, "step": self.step, "epoch": self.epoch, "time": self.time}
        if self.kind is RowKind.EVENT:
            row |= {"event": self.event, "message": self.message}
        else:
            row |= {"figures": dict(self.figures), "verl": dict(self.verl)}
        if self.batches is not None:
            row["batches"] = self.batches.to_json()
        return plain(row)  # type: ignore[no-any-return]

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError for what is not a row."""
        batches = value.get("batches")
        return cls(
            kind=RowKind(value["kind"]),
            step=int(value["step"]),
            time=float(value["time"]),
            epoch=int(value.get("epoch", 0)),
            figures=_numbers(value.get("figures", {})),
            verl=_numbers(value.get("verl", {})),
            batches=Batches.from_json(batches) if batches else None,
            event=str(value.get("event", "")),
            message=str(value.get("message", "")),
        )


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    return {key: parsed for key, value in values.items() if (parsed := number(value)) is not None}


def append(path: Path, row: Row) -> None:
    """Adds one row; it is on disk when this returns. Where it raises, the journal is as it was."""
    new = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    line = (json.dumps(row.to_json(), allow_nan=False) + "\n").encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        try:
            while line:  # an almost full volume takes a part
                line = line[os.write(descriptor, line) :]
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)  # or the next row would be glued to half a one
            raise
    finally:
        os.close(descriptor)
    if new:
        sync_directory(path.parent)


def read(path: Path, offset: int = 0) -> Iterator[tuple[Row, int]]:
    """Rows from byte `offset` on, each with the offset behind it.

    A last line without its end (a write under way, or cut by a crash) is left for the next call. A damaged line in
    the middle is passed over: one bad line must not hide all later figures.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            offset += len(line)
            try:
                row = Row.from_json(json.loads(line))
            except (KeyError, TypeError, ValueError):
                continue
            yield row, offset
