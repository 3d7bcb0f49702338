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
    try:
        there, value = read_json(target / ORIGIN), read_json(target / manifests.NAME)
    except (OSError, ValueError):
        there, value = None, None
    if there != origin or value is None:
        whose = f"of {there.get('namespace')}/{there.get('name')}" if isinstance(there, dict) else "not of this export"
        raise DataError(f"spec.export.path: {target} is there and {whose}: nothing is overwritten; name another folder")
    if found := manifests.problems(target, Manifest.from_json(value)):
        raise StorageError(
            f"spec.export.path: {target} is damaged ({'; '.join(found[:3])}): remove it to have it made anew"
        )
    return True


def place(model: Path, target: Path, origin: dict[str, Any], run: int) -> None:
    """Makes `target` of the files in `model`. Raises DataError where something else is there by now."""
    if check(target, origin):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.{origin['key']}-{run:04d}")
    if beside.exists():
        shutil.rmtree(beside)
    beside.mkdir()
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
