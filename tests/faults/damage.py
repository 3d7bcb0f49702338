"""Damage by hand to the newest confirmed checkpoint, and a volume that is full."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.matrix import Fault, confirmed
from tests.faults.moments import Moment
from tests.support.kube import Kube
from tests.support.run import Run

from ppojob_contract import manifest as manifests
from ppojob_contract.journal import RowKind

SMALL_VOLUME = "ppojob-small"
SMALL_MEGABYTES = 64


def _target(run: Run) -> Path:
    newest = confirmed(run)[-1]
    return run.layout.attempt(newest.attempt).checkpoint(newest.step)


def _largest(folder: Path) -> Path:
    return max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)


def _cut(folder: Path) -> None:
    path = _largest(folder)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def _damage(how: Callable[[Path], None]) -> Callable[[Run], int]:
    def do(run: Run) -> int:
        how(_target(run))
        return 1

    return do


def _bad_row(run: Run, number: int) -> bool:
    """The guardrail's figure is out of bounds: the rollback comes two rows later."""
    threshold = run.spec["guardrails"][0]["conditions"][0]["above"]
    return any(row.kind is RowKind.STEP and row.figures.get("kl", 0.0) > threshold for row in run.journal(number))


BEFORE = Moment("just before the rollback", _bad_row)

DAMAGES = (
    Fault("checkpoint: a file cut", BEFORE, _damage(_cut)),
    Fault("checkpoint: a file missing", BEFORE, _damage(lambda folder: _largest(folder).unlink())),
    Fault("checkpoint: manifest missing", BEFORE, _damage(lambda folder: (folder / manifests.NAME).unlink())),
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
