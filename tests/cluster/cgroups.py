"""One control group of our own, above everything that the node runs.

The daemons are started inside it and the kubelet puts all pods below it. A child cannot leave its parent's group, so
membership says what is ours, whatever was killed and whatever a pid file (there is none) would claim.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from .settings import CGROUP
from .shell import wait_until

_DAEMONS = "daemons"


def roots() -> list[Path]:
    """Our group in every hierarchy of the host: one for cgroup v2, one per controller for v1."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mount, _, source = line.partition(" - ")
        if source.split()[0] in ("cgroup", "cgroup2"):
            found.append(Path(mount.split()[4]) / CGROUP)
    return found


def create() -> None:
    """Make the group everywhere, so that the kubelet finds its root and the daemons have a place."""
    for root in roots():
        if _is_v2(root):
            _enable_controllers(root.parent)
            root.mkdir(exist_ok=True)
            _enable_controllers(root)
        else:
            root.mkdir(exist_ok=True)
            _inherit_cpuset(root)
        (root / _DAEMONS).mkdir(exist_ok=True)
        _inherit_cpuset(root / _DAEMONS)


def entry_files() -> list[str]:
    """Where a process writes 0 to enter the daemons' group: v2, or one v1 hierarchy, which is enough to be found."""
    by_preference = sorted(roots(), key=lambda root: (not _is_v2(root) or _is_hybrid(root), root.parent.name != "pids"))
    return [str(root / _DAEMONS / "cgroup.procs") for root in by_preference[:1]]


def processes() -> set[int]:
    """Every process that the node runs: daemons, shims, containers."""
    found: set[int] = set()
    for root in roots():
        for folder, _, _ in os.walk(root):
            with contextlib.suppress(OSError):
                found.update(int(pid) for pid in (Path(folder) / "cgroup.procs").read_text().split())
    return found - {0}


def daemon_processes() -> dict[str, int]:
    """Program name -> process for what runs in the daemons' group, read from the kernel and not from a file of ours."""
    found: dict[str, int] = {}
    for pid in sorted(_members(_DAEMONS)):
        with contextlib.suppress(OSError):
            found.setdefault(Path(f"/proc/{pid}/exe").readlink().name, pid)
    return found


def kill_all(seconds: float = 30) -> None:
    """Kill every process of the group with SIGKILL until none is left."""

    def none_left() -> bool:
        remaining = processes()
        for pid in remaining:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not remaining

    _thaw()
    wait_until("ending the node's processes", none_left, seconds)


def remove(seconds: float = 10) -> None:
    """Remove the (empty) group and all below it, deepest first."""

    def gone() -> bool:
        for root in roots():
            for folder, _, _ in os.walk(root, topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
        return not any(root.exists() for root in roots())

    wait_until("removing the node's control groups", gone, seconds)


def _members(child: str) -> set[int]:
    found: set[int] = set()
    for root in roots():
        with contextlib.suppress(OSError):
            found.update(int(pid) for pid in (root / child / "cgroup.procs").read_text().split())
    return found


def _is_v2(root: Path) -> bool:
    return (root.parent / "cgroup.controllers").exists()


def _is_hybrid(root: Path) -> bool:
    """A v2 hierarchy without controllers beside the v1 ones."""
    return not (root.parent / "cgroup.controllers").read_text().strip()


def _enable_controllers(folder: Path) -> None:
    """Hand the folder's controllers to its children; one that the host does not give is left out."""
    for controller in (folder / "cgroup.controllers").read_text().split():
        with contextlib.suppress(OSError):
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")


def _inherit_cpuset(folder: Path) -> None:
    """A new v1 cpuset is empty, and nothing can run in it before it has processors and memory nodes."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        file = folder / name
        if file.exists() and not _is_v2(folder) and not file.read_text().strip():
            file.write_text((folder.parent / name).read_text())


def _thaw() -> None:
    """A paused container does not die before it runs again."""
    for root in roots():
        for folder, _, _ in os.walk(root):
            for name, value in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
                file = Path(folder) / name
                with contextlib.suppress(OSError):
                    if file.exists():
                        file.write_text(value)
