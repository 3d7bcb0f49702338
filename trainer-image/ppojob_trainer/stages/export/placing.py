"""The exported model at a place of the user's choice: beside first, then there by one rename; nothing is replaced."""

import os
import shutil
from pathlib import Path
from typing import Any

from ppojob_contract import manifest as manifests
from ppojob_contract.durable import read_json, sync_directory, write_json
from ppojob_contract.manifest import Manifest
from ppojob_trainer import sealing
from ppojob_trainer.errors import DataError, StorageError

ORIGIN = "export.json"
"""In the folder: whose export it is."""

_LINKED_BYTES = 1 << 20
"""Larger files are linked where the volume is the same: nobody edits weights in place, and they need no second room."""


def check(target: Path, origin: dict[str, Any]) -> bool:
    """Whether it is there already. Raises DataError where something else is."""
    if not target.is_absolute():
        raise DataError(f"spec.export.path: {target} is no absolute path")
    if not target.exists():
        return False
    there, value = _read(target / ORIGIN), _read(target / manifests.NAME)
    if there != origin or value is None:
        raise _taken(target, there)
    if found := manifests.problems(target, Manifest.from_json(value)):
        raise StorageError(
            f"spec.export.path: {target} is damaged ({'; '.join(found[:3])}): remove it to have it made anew"
        )
    return True


def check_ahead(target: Path, uid: str) -> None:
    """Whether job `uid` may put something there in days to come. Raises DataError where not."""
    if target.exists():
        there = _read(target / ORIGIN)
        if there is None or there.get("uid") != uid:
            raise _taken(target, there)
        return
    above = next(path for path in target.parents if path.exists())
    if not above.is_dir():
        raise DataError(f"spec.export.path: {above} is a file: name another folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise DataError(
            f"spec.export.path: user 1000 of the trainer's pods may not write in {above}: change its owner or mode, or "
            "name another folder"
        )


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = read_json(path)
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _taken(target: Path, there: dict[str, Any] | None) -> DataError:
    whose = f"of {there.get('namespace')}/{there.get('name')}" if there is not None else "not of this export"
    return DataError(f"spec.export.path: {target} is there and {whose}: nothing is overwritten; name another folder")


def place(model: Path, target: Path, origin: dict[str, Any], run: int) -> None:
    """Makes `target` of the files in `model`. Raises DataError where something else is there by now."""
    begun = f".{target.name}.{origin['key']}-"
    for left in target.parent.glob(f"{begun}[0-9]*"):  # by a run that was killed
        shutil.rmtree(left, ignore_errors=True)
    if check(target, origin):
        return
    beside = target.with_name(f"{begun}{run:04d}")
    beside.mkdir(parents=True)
    for path in sorted(model.iterdir()):
        _put(path, beside / path.name)
    sealing.sync(beside)
    manifest = Manifest(attempt=run, step=0, world_size=1, files=manifests.scan(beside, checksums=True))
    write_json(beside / manifests.NAME, manifest.to_json())
    try:
        beside.rename(target)
    except OSError as error:
        shutil.rmtree(beside)
        if not check(target, origin):
            raise StorageError(f"{beside} cannot be renamed to {target}: {error.strerror}") from error
    sync_directory(target.parent)


def _put(source: Path, target: Path) -> None:
    if source.stat().st_size > _LINKED_BYTES:
        try:
            os.link(source, target)
        except OSError:  # another volume, or one without links
            pass
        else:
            return
    shutil.copyfile(source, target)
