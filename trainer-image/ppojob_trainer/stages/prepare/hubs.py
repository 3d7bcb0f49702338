# mypy: disable-error-code="import, no-untyped-call"
"""Data sets of Hugging Face and ModelScope, row by row as they come."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ppojob_contract.preparation import Hub
from ppojob_trainer.errors import CommunicationError, ConfigError, DataError
from ppojob_trainer.stages.prepare.rows import Raw
from ppojob_trainer.stages.prepare.settings import Source

_ELSE = "or put the files on the claim and name their paths"


def read(source: Source, name: str) -> Iterator[Raw]:
    """Raises ConfigError, DataError or CommunicationError, by who can help."""
    try:
        rows = _hugging_face(source, name) if source.hub is Hub.HUGGING_FACE else _model_scope(source, name)
        for number, value in enumerate(rows, 1):
            yield Raw(name, number, value)
    except (ConfigError, DataError):
        raise
    except (OSError, RuntimeError, ValueError) as error:
        raise CommunicationError(
            f"{source.hub} data set {name} could not be read: {type(error).__name__}: {error}"
        ) from error


def _hugging_face(source: Source, name: str) -> Iterator[Mapping[str, Any]]:
    return _stream(source, name, name, source.revision)


def _stream(source: Source, name: str, where: str, revision: str | None) -> Iterator[Mapping[str, Any]]:
    try:
        import datasets  # noqa: PLC0415 - takes seconds
        from datasets.exceptions import DatasetNotFoundError  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(f"{name}: the package datasets is missing in the trainer's image; add it, {_ELSE}") from error
    if os.environ.get("HF_HUB_OFFLINE", "") in {"1", "true", "TRUE"} and not Path(where).is_dir():
        raise ConfigError(
            f"{name}: the trainer's pods are offline (HF_HUB_OFFLINE=1): set that variable to 0 where the cluster "
            f"reaches the hub, {_ELSE}"
        )
    try:
        rows: Iterator[Mapping[str, Any]] = iter(
            datasets.load_dataset(
                where, name=source.configuration, split=source.split, revision=revision, streaming=True
            )
        )
    except DatasetNotFoundError as error:
        raise DataError(f"{name} is not in the hub, or may not be read without HF_TOKEN: {error}") from error
    except ValueError as error:
        asked = f"configuration {source.configuration or 'not given'}, split {source.split}"
        raise DataError(f"{name}, {asked}: {error}") from error
    return rows


def _model_scope(source: Source, name: str) -> Iterator[Mapping[str, Any]]:
    try:
        from modelscope.hub.snapshot_download import dataset_snapshot_download  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            f"{name}: the package modelscope is missing in the trainer's image; add it, {_ELSE}"
        ) from error
    folder = dataset_snapshot_download(name, revision=source.revision or "master")
    return _stream(source, name, str(folder), None)
