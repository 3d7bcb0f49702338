"""A pool of hostPath volumes behind the default StorageClass of our own node.

A claim takes one and keeps it; when the claim is deleted the volume is Released and never bound again. `refresh`
replaces such volumes with fresh, empty ones of the same name.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from .kubectl import Kubectl
from .settings import PACKAGE, Paths

STORAGE_CLASS = "standard"
COUNT = 8
_SIZE = "20Gi"
_UNUSABLE = {"Released", "Failed"}


def refresh(kubectl: Kubectl, paths: Paths) -> list[str]:
    """Make every volume of the pool usable that is missing or was used; return their names. Bound ones stay.

    Elsewhere than on our own node storage is the cluster's business: nothing is touched.
    """
    if kubectl.kubeconfig != paths.admin_kubeconfig:
        return []
    kubectl.apply("-f", PACKAGE / "manifests" / "storage.yaml")
    volumes = kubectl.read("persistentvolumes")["items"]
    phases = {volume["metadata"]["name"]: volume.get("status", {}).get("phase") for volume in volumes}
    stale = [name for name in _names() if name not in phases or phases[name] in _UNUSABLE]
    used = [name for name in stale if name in phases]
    if used:
        kubectl("delete", "persistentvolume", "--wait", "--timeout=60s", *used)
    for name in stale:
        _empty(paths.volumes / name)
    if stale:
        kubectl.apply_objects([_volume(name, paths.volumes / name) for name in stale])
    return stale


def _names() -> list[str]:
    return [f"ppojob-volume-{number}" for number in range(COUNT)]


def _empty(folder: Path) -> None:
    """An empty folder that containers of any user may write to."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    folder.chmod(0o777)


def _volume(name: str, folder: Path) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "storageClassName": STORAGE_CLASS,
            "capacity": {"storage": _SIZE},
            "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": str(folder), "type": "Directory"},
        },
    }
