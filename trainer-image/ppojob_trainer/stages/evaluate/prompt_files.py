# mypy: disable-error-code="import, no-untyped-call"
"""Rows of the prompt files of an evaluation."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from ppojob_trainer.errors import DataError
from ppojob_trainer.stages.evaluate.questions import Row, lines
from ppojob_trainer.stages.evaluate.settings import Format, PromptSource


def rows(sources: Sequence[PromptSource]) -> list[tuple[Row, PromptSource]]:
    """All of them. Raises DataError naming the file."""
    found = [(row, source) for source in sources for path in source.files for row in _rows(path, source)]
    if not found:
        raise DataError(f"no prompts in {', '.join(path for source in sources for path in source.files)}")
    return found


def _rows(path: str, source: PromptSource) -> Iterator[Row]:
    if source.format is not Format.PARQUET:
        yield from lines(path)
        return
    try:
        table = pq.read_table(path)
    except FileNotFoundError as error:
        raise DataError(f"{path} is not there") from error
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet: {error}") from error
    for number, row in enumerate(table.to_pylist(), start=1):
        yield f"{path} row {number}", row
