"""Lines that a killed run leaves for the next: each is on disk before what follows from it is begun."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any


def append(path: Path, values: Iterable[Mapping[str, Any]]) -> None:
    """All of them, on disk when it returns. A line that was cut off by a kill is ended first."""
    text = "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)
    with path.open("a+b") as file:
        end = file.seek(0, os.SEEK_END)
        if end:
            file.seek(end - 1)
            text = text if file.read(1) == b"\n" else f"\n{text}"
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Those that are whole."""
    if not path.exists():
        return
    for line in path.read_bytes().split(b"\n"):
        try:
            value = json.loads(line)
        except ValueError:  # cut off, or in the middle of a character
            continue
        if isinstance(value, dict):
            yield value
