"""One row of JSON, or why it is none."""

import json
from typing import Any

from ppojob_trainer.stages.prepare.rows import RowError

LONGEST_BYTES = 4 << 20
"""Of one row; the longest dialogues of public data sets have some hundred kB."""

TOO_LONG = f"longer than {LONGEST_BYTES >> 20} MiB: are line breaks missing?"


def parse(line: bytes) -> dict[str, Any]:
    """One row. Raises RowError."""
    text = decode(line)
    try:
        value = json.loads(text, object_pairs_hook=columns, parse_constant=no_number)
    except json.JSONDecodeError as error:
        raise RowError(f"not JSON at column {error.pos + 1}: {error.msg}") from error
    except RecursionError as error:
        raise RowError("nested too deeply") from error
    return row(value)


def decode(line: bytes) -> str:
    """Raises RowError for what is no UTF-8."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RowError(
            f"not UTF-8: byte 0x{line[error.start]:02x} at column {error.start + 1}; convert the file, "
            "for instance with iconv -f LATIN1 -t UTF-8"
        ) from error
    if "\0" in text:
        raise RowError(
            "has NUL bytes: UTF-16 without a byte order mark? Convert the file with iconv -f UTF-16LE -t UTF-8"
        )
    return text


def row(value: Any) -> dict[str, Any]:
    """Raises RowError for what is no object."""
    if not isinstance(value, dict):
        kinds = {list: "a list", str: "a text", type(None): "null", bool: "a truth value"}
        raise RowError(f"{kinds.get(type(value), 'a number')}, not an object with columns")
    return value


def columns(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise RowError(f"column {twice!r} is there twice")
    return found


def no_number(text: str) -> Any:
    raise RowError(f"{text} is no JSON value")
