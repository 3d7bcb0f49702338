# mypy: disable-error-code="import, no-untyped-call"
"""Parquet in and out, a batch of rows at a time."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ppojob_trainer.errors import DataError
from ppojob_trainer.stages.prepare.rows import Raw

_READ_ROWS = 64
_BUFFER = 1 << 20
"""Bytes of each column that are read at once: without it a row group's whole column is, however large."""

_GROUP_ROWS = 1024
_GROUP_CHARACTERS = 4 << 20
"""Of text, roughly; a row group is written when it has so many, or so many rows."""

_MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))

PROMPTS = pa.schema(
    [
        ("data_source", pa.string()),
        ("prompt", _MESSAGES),
        ("ability", pa.string()),
        ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())])),
        (
            "extra_info",
            pa.struct([("index", pa.int64()), ("split", pa.string()), ("source", pa.string()), ("line", pa.int64())]),
        ),
    ]
)
"""verl's columns (verl `examples/data_preprocess/gsm8k.py`)."""

PAIRS = pa.schema([("prompt", _MESSAGES), ("chosen", pa.string()), ("rejected", pa.string())])


def read(path: Path) -> Iterator[Raw]:
    """Raises DataError for what is no Parquet or is damaged."""
    number = 0
    try:
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER) as file:
            for batch in file.iter_batches(batch_size=_READ_ROWS):
                for value in batch.to_pylist():
                    number += 1
                    yield Raw(str(path), number, value)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the volume's, not the content's
            raise
        behind = f" behind row {number}" if number else ""
        raise DataError(f"{path} cannot be read as Parquet{behind}: {error}") from error


class Writer:
    """A Parquet file that is written in row groups; there is none as long as nothing is added."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path = path
        self.rows = 0
        self._schema = schema
        self._file: pq.ParquetWriter | None = None
        self._waiting: list[Mapping[str, Any]] = []
        self._characters = 0

    def add(self, row: Mapping[str, Any]) -> None:
        self._waiting.append(row)
        self._characters += _characters(row)
        self.rows += 1
        if len(self._waiting) >= _GROUP_ROWS or self._characters >= _GROUP_CHARACTERS:
            self._flush()

    def close(self) -> None:
        if self._waiting:
            self._flush()
        if self._file is not None:
            self._file.close()

    def _flush(self) -> None:
        if self._file is None:
            self._file = pq.ParquetWriter(self.path, self._schema)
        self._file.write_batch(pa.RecordBatch.from_pylist(self._waiting, schema=self._schema))
        self._waiting, self._characters = [], 0


def _characters(value: Any) -> int:
    """Of all texts in it."""
    if isinstance(value, str):
        return len(value)
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return sum(_characters(part) for part in parts)
