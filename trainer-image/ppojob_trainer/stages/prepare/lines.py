"""Text files line by line, in memory that does not grow with the file: JSON lines and arrays, plain or gzipped."""

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from ppojob_trainer.errors import DataError
from ppojob_trainer.stages.prepare import array
from ppojob_trainer.stages.prepare.json_rows import LONGEST_BYTES, TOO_LONG, parse
from ppojob_trainer.stages.prepare.rows import Bad, Raw, RowError

_CHUNK = 1 << 16
_UTF8_MARK = b"\xef\xbb\xbf"
_FOREIGN_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\x00\x00\xfe\xff": "UTF-32"}


def read(path: Path) -> Iterator[Raw | Bad]:
    """The rows of a `.jsonl`, `.json` or such a file ending in `.gz`; blank lines are passed over.

    Raises DataError for what is wrong with the file as a whole.
    """
    name = path.name.removesuffix(".gz")
    with _open(path) as file:
        beginning = _beginning(path, file)
        if name.endswith(".json") and beginning.lstrip().startswith(b"["):
            yield from array.read(path, file)
        else:
            yield from _lines(path, file)


def _open(path: Path) -> io.BufferedReader:
    opened = cast("IO[bytes]", gzip.open(path) if path.name.endswith(".gz") else path.open("rb"))  # noqa: SIM115
    return io.BufferedReader(_Whole(path, opened), _CHUNK)


class _Whole(io.RawIOBase):
    """A file whose own end is trusted: a cut or damaged gzip stream is an error that says where."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path, self._file, self._read = path, file, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._file.read(len(buffer))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(
                f"{self._path}: not a whole gzip file ({error}; {self._read} bytes could be unpacked): copy it again"
            ) from error
        buffer[: len(data)] = data
        self._read += len(data)
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def _beginning(path: Path, file: io.BufferedReader) -> bytes:
    """The first bytes, behind a byte order mark. Raises DataError for a file that has none or is no UTF-8."""
    first = file.peek(64)
    if not first:
        raise DataError(f"{path} is empty: was it written completely?")
    for mark, encoding in _FOREIGN_MARKS.items():
        if first.startswith(mark):
            raise DataError(f"{path} is {encoding} text: convert it with iconv -f {encoding} -t UTF-8")
    if first.startswith(_UTF8_MARK):
        file.read(len(_UTF8_MARK))
        return first[len(_UTF8_MARK) :]
    return first


def _lines(path: Path, file: io.BufferedReader) -> Iterator[Raw | Bad]:
    number = 0
    while line := file.readline(LONGEST_BYTES + 1):
        number += 1
        if len(line) > LONGEST_BYTES and not line.endswith(b"\n"):
            _skip_line(file)
            yield Bad(str(path), number, TOO_LONG)
        elif line.strip():
            try:
                yield Raw(str(path), number, parse(line.rstrip(b"\r\n")))
            except RowError as error:
                cut = not line.endswith(b"\n") and not line.rstrip().endswith(b"}")
                reason = (
                    f"cut off in the middle of the row (the file ends here): copy it again; {error}" if cut else error
                )
                yield Bad(str(path), number, str(reason))


def _skip_line(file: io.BufferedReader) -> None:
    while (part := file.readline(_CHUNK)) and not part.endswith(b"\n"):
        pass
