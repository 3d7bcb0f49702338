"""The rows of a source, whatever its files are."""

from collections.abc import Iterator
from pathlib import Path

from ppojob_trainer.errors import DataError
from ppojob_trainer.stages.prepare import hubs, lines, parquet
from ppojob_trainer.stages.prepare.rows import Bad, Raw
from ppojob_trainer.stages.prepare.settings import Source

_READERS = {
    ".jsonl": lines.read,
    ".json": lines.read,
    ".jsonl.gz": lines.read,
    ".json.gz": lines.read,
    ".parquet": parquet.read,
}


def is_local(name: str) -> bool:
    return name.startswith("/")


def rows(source: Source, name: str) -> Iterator[Raw | Bad]:
    """Of one of the source's files or data sets. Raises DataError for one that cannot be read or has no rows."""
    found = _local(Path(name)) if is_local(name) else hubs.read(source, _hub_name(name))
    empty = True
    for raw in found:
        empty = False
        yield raw
    if empty:
        raise DataError(f"{name} has no rows")


def _local(path: Path) -> Iterator[Raw | Bad]:
    read = next(
        (_READERS[ending] for ending in sorted(_READERS, key=len, reverse=True) if path.name.endswith(ending)), None
    )
    if path.is_dir():
        raise DataError(f"{path} is a folder: name the files in it")
    if not path.exists():
        raise DataError(f"{path} is not there: the path is one inside the pods, on the job's claim or another mount")
    if read is None:
        raise DataError(f"{path}: cannot be read by its name; known are {', '.join(_READERS)}")
    try:
        yield from read(path)
    except PermissionError as error:
        raise DataError(
            f"{path} may not be read by user 1000 of the trainer's pods: change its owner or mode"
        ) from error


def _hub_name(name: str) -> str:
    if name.endswith(tuple(_READERS)) or name.startswith("."):
        raise DataError(f"{name}: paths are absolute, such as /ppojob/storage/{name.lstrip('./')}")
    return name
