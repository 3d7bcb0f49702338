"""Manifests: what makes a checkpoint folder a target."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ppojob_contract import manifest as manifests
from ppojob_contract.data_plan import Batches
from ppojob_contract.durable import read_json, sync_directory, write_json
from ppojob_contract.manifest import Manifest
from ppojob_contract.outcomes import ExitClass
from ppojob_trainer.classification import classify
from ppojob_trainer.errors import AttemptError, CheckpointError, Stopped


def seal(
    folder: Path,
    *,
    attempt: int,
    step: int,
    world_size: int,
    figures: Mapping[str, float],
    state: Mapping[str, float],
    settings: Mapping[str, float],
    dataset_digest: str | None = None,
    batches: Batches | None = None,
    checksums: bool = False,
) -> Manifest:
    """Puts the checkpoint's files on disk, then its manifest: torch.save leaves them in the page cache."""
    sync(folder)
    manifest = Manifest(
        attempt=attempt,
        step=step,
        world_size=world_size,
        files=manifests.scan(folder, checksums=checksums),
        figures=figures,
        state=state,
        settings=settings,
        dataset_digest=dataset_digest,
        batches=batches,
    )
    write_json(folder / manifests.NAME, manifest.to_json())
    return manifest


def verified(folder: Path) -> Manifest:
    """The manifest of a checkpoint that can be loaded. Raises CheckpointError that names what is wrong."""
    try:
        value = read_json(folder / manifests.NAME)
        manifest = Manifest.from_json(value) if value is not None else None
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unusable(folder, f"{manifests.NAME} cannot be read: {error}") from error
    if manifest is None:
        raise _unusable(folder, f"{manifests.NAME} is missing")
    if found := manifests.problems(folder, manifest):
        raise _unusable(folder, "; ".join(found[:5]))
    return manifest


@contextmanager
def loading(folder: Path) -> Iterator[None]:
    """Whatever goes wrong in here, and is no matter of memory, network or settings, is the checkpoint's fault."""
    try:
        yield
    except Exception as error:
        exit_class, message = classify(error)
        if isinstance(error, AttemptError | Stopped) or exit_class not in {ExitClass.STORAGE_ERROR, ExitClass.UNKNOWN}:
            raise
        raise _unusable(folder, f"cannot be loaded: {message}") from error


def _unusable(folder: Path, what: str) -> CheckpointError:
    return CheckpointError(f"checkpoint {folder}: {what}", str(folder))


def sync(folder: Path) -> None:
    """Puts all files of a folder on disk."""
    for path in [*folder.rglob("*"), folder]:
        if path.is_dir():
            sync_directory(path)
        else:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
