"""Rows are whole or not there."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ppojob_contract import journal
from ppojob_contract.journal import Row, RowKind


def row(step: int) -> Row:
    return Row(kind=RowKind.STEP, step=step, time=0.0, figures={"kl": 0.1})


def steps(path: Path) -> list[int]:
    return [found.step for found, _ in journal.read(path)]


def writing(at_most: int, room: int) -> Callable[[int, bytes], int]:
    """A volume that takes so many bytes at a time, and so many in all."""
    write, left = os.write, room

    def some(descriptor: int, data: bytes) -> int:
        nonlocal left
        part = data[: min(at_most, left)]
        if not part:
            raise OSError(errno.ENOSPC, "No space left on device")
        left -= len(part)
        return write(descriptor, part)

    return some


def test_a_row_that_is_taken_in_parts_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.jsonl"
    monkeypatch.setattr(os, "write", writing(at_most=7, room=10_000))
    journal.append(path, row(1))
    journal.append(path, row(2))
    assert steps(path) == [1, 2]


def test_a_row_without_room_leaves_nothing_that_the_next_is_glued_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.jsonl"
    journal.append(path, row(1))
    with monkeypatch.context() as full:
        full.setattr(os, "write", writing(at_most=7, room=20))
        with pytest.raises(OSError, match="No space left"):
            journal.append(path, row(2))
    journal.append(path, row(3))
    assert steps(path) == [1, 3]
