"""Damage by hand to the newest confirmed checkpoint, and a volume that is full."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.matrix import Fault, confirmed
from tests.faults.moments import BEFORE
from tests.support.kube import Kube
from tests.support.run import Run

from ppojob_contract import manifest as manifests

SMALL_VOLUME = "ppojob-small"
SMALL_MEGABYTES = 64


def _largest(folder: Path) -> Path:
    return max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)


def _cut(folder: Path) -> None:
    path = _largest(folder)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def _change(folder: Path) -> None:
    """As many bytes as before: only its checksum tells, which the trainer compares before it loads."""
    path = _largest(folder)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


def _damage(how: Callable[[Path], None]) -> Callable[[Run], Callable[[], int]]:
    """To the newest confirmed checkpoint: the one that the rollback would go back to."""

    def aim(run: Run) -> Callable[[], int]:
        layout = run.layout

        def do() -> int:
            newest = confirmed(layout)[-1]
            how(layout.attempt(newest.attempt).checkpoint(newest.step))
            return 1

        return do

    return aim


def _fault(what: str, how: Callable[[Path], None]) -> Fault:
    return Fault(f"checkpoint: {what}", BEFORE, _damage(how), needs_confirmed=2)


DAMAGES = (
    _fault("a file cut", _cut),
    _fault("a file missing", lambda folder: _largest(folder).unlink()),
    _fault("a bit of a file turned", _change),
    _fault("manifest missing", lambda folder: (folder / manifests.NAME).unlink()),
)


@contextmanager
def small_volume(kube: Kube) -> Iterator[Path]:
    """A volume of its own small file system; the folder."""
    folder = kube.paths.volumes / SMALL_VOLUME
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={SMALL_MEGABYTES}m,mode=0777"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": SMALL_VOLUME},
        "spec": {
            "storageClassName": "",
            "capacity": {"storage": f"{SMALL_MEGABYTES}Mi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": str(folder), "type": "Directory"},
        },
    }
    kube.kubectl.apply_objects([volume])
    try:
        yield folder
    finally:
        kube.kubectl("delete", "persistentvolume", SMALL_VOLUME, "--wait=false")
        subprocess.run(["umount", "--lazy", folder], check=False)


def fill(folder: Path, leave_bytes: int) -> Path:
    """Somebody else's data, which takes all room but so much; returns the file, which grows when called again."""
    statistics = os.statvfs(folder)
    path = folder / "somebody-elses-data"
    with path.open("ab") as file:
        file.write(b"\1" * max(0, statistics.f_bavail * statistics.f_frsize - leave_bytes))
    return path
