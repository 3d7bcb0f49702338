# mypy: disable-error-code="import, no-untyped-call"
"""Rows of the prompt files of an evaluation."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from ppojob_trainer.errors import DataError
from ppojob_trainer.stages.evaluate.questions import Row, lines
from ppojob_trainer.stages.evaluate.settings import Format, PromptSource

_ROWS_AT_ONCE = 256


def rows(sources: Sequence[PromptSource]) -> list[tuple[Row, PromptSource]]:
    """All of them. Raises DataError naming the file."""
    found = [(row, source) for source in sources for path in source.files for row in rows_of(path, source)]
    if not found:
        raise DataError(f"no prompts in {', '.join(path for source in sources for path in source.files)}")
    return found


def rows_of(path: str, source: PromptSource) -> Iterator[Row]:
    """Of one file, as they are asked for. Raises DataError naming it."""
    if source.format is not Format.PARQUET:
        yield from lines(path)
        return
    try:
        batches = pq.ParquetFile(path).iter_batches(batch_size=_ROWS_AT_ONCE)
        rows_found = (row for batch in batches for row in batch.to_pylist())
        for number, row in enumerate(rows_found, start=1):
            yield f"{path} row {number}", row
    except FileNotFoundError as error:
        raise DataError(f"{path} is not there") from error
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet: {error}") from error
