# mypy: disable-error-code="import, no-untyped-call"
"""Pairs from Parquet to tokens in Parquet: rows stream through, so that their number does not matter."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ppojob_trainer.errors import DataError
from ppojob_trainer.stages.reward.pairs import COLUMNS, Counts, Encode, fitting, usable

SCHEMA = pa.schema([("chosen_ids", pa.list_(pa.int32())), ("rejected_ids", pa.list_(pa.int32()))])
_ROWS_AT_ONCE = 256


def tokenized(
    files: Sequence[str], target: Path, encode: Encode, max_length: int, between: Callable[[], None]
) -> Counts:
    """Writes what can be trained on to `target`, in one step. `between` is called now and then and may raise.

    Raises DataError for a file that is not pairs, and where nothing is left.
    """
    counts = Counts()
    temporary = target.with_name(f".{target.name}.partial")
    with pq.ParquetWriter(temporary, SCHEMA) as writer:
        for path in files:
            for first_row, batch in _batches(path):
                between()
                pairs = list(usable(batch, path, first_row, counts))
                tokens = list(fitting(pairs, encode, max_length, counts))
                columns = {name: [pair[side] for pair in tokens] for side, name in enumerate(SCHEMA.names)}
                writer.write_table(pa.table(columns, schema=SCHEMA))
    if counts.kept == 0:
        raise DataError(f"no pair of {', '.join(files)} can be used: {counts.rows} rows, {counts.told()}")
    temporary.replace(target)
    return counts


def _batches(path: str) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Rows of a file in order, with the number of the first, counted from 1."""
    try:
        file = pq.ParquetFile(path)
    except FileNotFoundError as error:
        raise DataError(f"{path} is not there") from error
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise DataError(f"{path} is not a Parquet file: {error}") from error
    with file:
        missing = [name for name in COLUMNS if name not in file.schema_arrow.names]
        if missing:
            raise DataError(f"{path} has no column {' or '.join(missing)}; pairs have {', '.join(COLUMNS)}")
        first = 1
        try:
            for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=list(COLUMNS)):
                yield first, batch.to_pylist()
                first += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{path}: cannot be read behind row {first - 1}: {error}") from error
