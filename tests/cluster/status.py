"""What `status` and `env` print."""

from __future__ import annotations

import contextlib
import os
import shlex
from pathlib import Path

from . import addons, cgroups, containerd, daemons, node, targets
from .kubectl import Kubectl
from .settings import Paths
from .shell import CommandError
from .targets import Target
from .tools import HELM, KUBERNETES, PROMETHEUS


def status(paths: Paths) -> tuple[str, bool]:
    """A table of what there is, and whether all of it is well."""
    target = targets.choose(paths)
    kubeconfig = targets.kubeconfig(target, paths)
    rows = [("cluster", target.value, "")]
    if target is Target.NODE:
        rows += _node_rows(paths)
    rows += _addon_rows(Kubectl(paths, kubeconfig), ours=target is Target.NODE)
    rows.append(("kubeconfig", str(kubeconfig), "" if kubeconfig.exists() else "missing"))
    return _table(rows), all(state not in ("missing", "stopped", "not ready") for _, _, state in rows)


def exports(paths: Paths) -> str:
    """Shell lines that point kubectl, helm and tests at the cluster."""
    target = targets.choose(paths)
    kubeconfig = targets.kubeconfig(target, paths)
    lines = [f"export KUBECONFIG={shlex.quote(str(kubeconfig))}"]
    on_path = os.environ.get("PATH", "").split(os.pathsep)
    missing = [shlex.quote(str(folder)) for folder in _programs(target, paths) if str(folder) not in on_path]
    if missing:
        lines.append(f"export PATH={os.pathsep.join(missing)}:$PATH")
    if target is Target.NODE:  # elsewhere a service's address is not reached from outside
        with contextlib.suppress(CommandError):
            lines.append(f"export PPOJOB_PROMETHEUS_URL={addons.prometheus_url(Kubectl(paths, kubeconfig))}")
    return "\n".join(lines)


def _programs(target: Target, paths: Paths) -> list[Path]:
    """The node's links, else what has been built of programs that a cluster's user wants."""
    if target is Target.NODE:
        return [paths.bin]
    folders = [group.folder(paths) / "bin" for group in (KUBERNETES, HELM, PROMETHEUS)]
    return [folder for folder in folders if folder.exists()]


def _node_rows(paths: Paths) -> list[tuple[str, str, str]]:
    running = cgroups.daemon_processes()
    rows = [
        ("process", program, f"running, pid {running[program]}" if program in running else "stopped")
        for program in sorted(daemons.all_programs(paths))
    ]
    rows.append(("node", "Ready condition", "ready" if node.node_ready(paths) else "not ready"))
    if "containerd" in running:
        rows += [("image", reference, "imported") for reference in containerd.images(paths)]
    rows.append(("disk", str(paths.cluster), _size(paths.cluster)))
    rows.append(("disk", str(paths.cache), _size(paths.cache)))
    return rows


def _addon_rows(client: Kubectl, *, ours: bool) -> list[tuple[str, str, str]]:
    """Versions only of what is ours: elsewhere an addon may have been there before, in another one."""
    try:
        there = addons.available(client)
    except CommandError:
        there = set()
    return [
        (
            "addon",
            f"{addon.name} {addon.version}" if ours else addon.name,
            "available" if addon.name in there else "missing",
        )
        for addon in addons.ADDONS
    ]


def _size(folder: Path) -> str:
    """Space that the files of a folder take on its own disk, links and other mounts not followed."""
    if not folder.exists():
        return "0 GB"
    total = 0
    device = folder.stat().st_dev
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if _device(Path(parent, name)) == device]
        for name in files:
            try:
                total += Path(parent, name).lstat().st_blocks * 512
            except OSError:
                continue
    return f"{total / 1e9:.1f} GB"


def _device(folder: Path) -> int:
    try:
        return folder.lstat().st_dev
    except OSError:
        return -1


def _table(rows: list[tuple[str, str, str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    lines = (f"{kind:<{widths[0]}}  {name:<{widths[1]}}  {state}".rstrip() for kind, name, state in rows)
    return "\n".join(lines)
