"""Files that survive a crash at any point: never overwritten in place, on disk when a call returns."""

import json
import os
from pathlib import Path
from typing import Any

from ppojob_contract.numbers import plain


def read_json(path: Path) -> Any | None:
    """The file's value, or None where there is no file. Raises ValueError for what is not JSON."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return json.loads(text)


def write_json(path: Path, value: Any) -> None:
    """Creates or replaces `path` in one step."""
    temporary = _write_temporary(path, value)
    temporary.replace(path)
    sync_directory(path.parent)


def write_json_once(path: Path, value: Any) -> bool:
    """Creates `path` with its whole content; False, and no effect, where it already exists.

    A hard link gives both at once: O_EXCL alone would show a file before its content.
    """
    temporary = _write_temporary(path, value)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    sync_directory(path.parent)
    return True


def sync_directory(path: Path) -> None:
    """Puts a folder's entries on disk (a rename is not there before)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_temporary(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    with temporary.open("x", encoding="utf-8") as file:
        json.dump(plain(value), file, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())
    return temporary
