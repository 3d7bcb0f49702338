"""The elements of one large JSON array, a piece of the file at a time."""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from ppojob_trainer.errors import DataError
from ppojob_trainer.stages.prepare.json_rows import LONGEST_BYTES, TOO_LONG, columns, no_number, row
from ppojob_trainer.stages.prepare.rows import Bad, Raw, RowError

_PIECE = 1 << 16
_BETWEEN = re.compile(r"[\s,]*")


def read(path: Path, file: io.BufferedReader) -> Iterator[Raw | Bad]:
    """`number` counts the elements. Raises DataError at a broken one: behind it nothing can be told apart."""
    text = io.TextIOWrapper(cast("BinaryIO", file), encoding="utf-8")
    decoder = json.JSONDecoder(object_pairs_hook=columns, parse_constant=no_number)
    buffer, number = _more(path, text).lstrip().removeprefix("["), 0
    at = 0
    while True:
        between = _BETWEEN.match(buffer, at)
        at = between.end() if between else at
        if buffer.startswith("]", at):
            return
        try:
            value, at = decoder.raw_decode(buffer, at)
        except RowError as error:
            raise DataError(f"{path}, element {number + 1}: {error}") from error
        except json.JSONDecodeError as error:
            more = _more(path, text)
            if not more or len(buffer) - at > LONGEST_BYTES:
                what = TOO_LONG if more else "the file ends in the middle of the array: copy it again"
                raise DataError(f"{path}, element {number + 1}: {what} ({error.msg})") from error
            buffer, at = buffer[at:] + more, 0
        else:
            number += 1
            yield _element(str(path), number, value)


def _element(file: str, number: int, value: object) -> Raw | Bad:
    try:
        return Raw(file, number, row(value))
    except RowError as error:
        return Bad(file, number, str(error))


def _more(path: Path, text: io.TextIOWrapper) -> str:
    try:
        return text.read(_PIECE)
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8: convert it, for instance with iconv -f LATIN1 -t UTF-8") from error
