"""Checkpoints of a training that is going on: TRL's, each sealed when all of it is on disk.

A process can be killed while one is written; only a sealed one is gone on from.
"""

import os
import re
import shutil
from pathlib import Path

from ppojob_contract.durable import sync_directory, write_json

_SEAL = "sealed.json"
_NAME = re.compile(r"checkpoint-(\d+)")


def seal(folder: Path, step: int) -> None:
    """Says that the checkpoint is complete, once it is on disk."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            _sync(path)
    sync_directory(folder)
    write_json(folder / _SEAL, {"step": step})
    sync_directory(folder.parent)


def newest(folder: Path) -> Path | None:
    """The newest sealed one; those that were never finished are removed."""
    found: dict[int, Path] = {}
    for path in folder.iterdir() if folder.is_dir() else ():
        match = _NAME.fullmatch(path.name)
        if match is None:
            continue
        if (path / _SEAL).exists():
            found[int(match.group(1))] = path
        else:
            shutil.rmtree(path)
    return found[max(found)] if found else None


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
