"""The commands `up`, `down` and `build`: what is done in which order, and under which lock."""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Iterator, Sequence

from . import addons, cgroups, kubectl, network, node, packages, registry, targets, tools, volumes
from .kubectl import Kubectl
from .progress import Progress, say
from .settings import LOCK_FILE, NODE_NAME, Paths
from .shell import ClusterError
from .targets import Target
from .tools import HELM, KUBERAY, KUBERNETES, PROMETHEUS_OPERATOR, ToolGroup


def up(paths: Paths, *, for_images: bool = False) -> None:
    """Have a cluster with all addons; does nothing where it is there and healthy.

    `for_images`: refuses, before any effect, a cluster that images have no way into.
    """
    began = time.monotonic()
    target = targets.choose(paths)
    if for_images and target is Target.EXISTING:
        registry.required()
    say(f"cluster: {target.value}")
    if target is Target.NODE:
        packages.require_linux_root()
        with lock():
            changed = _up_node(paths)
    else:
        changed = _up_elsewhere(paths, target)
    took = f"up in {time.monotonic() - began:.1f} s" if changed else "already up and healthy"
    say(f"{took}; KUBECONFIG={targets.kubeconfig(target, paths)}")


def down(paths: Paths) -> None:
    """Remove the node (or the kind cluster), never a cluster of somebody else's. Caches and images stay."""
    target = targets.choose(paths)
    if target is Target.EXISTING:
        raise ClusterError("KUBECONFIG leads to a cluster that is not ours: nothing is taken down")
    if target is Target.KIND:
        targets.kind_down(paths)
        return
    packages.require_linux_root()
    with lock():
        was_there = bool(cgroups.processes()) or network.exists()
        node.stop(paths)
    say("down" if was_there else "nothing was up")


def build(paths: Paths, groups: Sequence[ToolGroup] = tools.GROUPS) -> None:
    """Build what the cache lacks."""
    _build(paths, Progress(len(_missing(paths, groups))), groups)


@contextlib.contextmanager
def lock() -> Iterator[None]:
    """One `up` or `down` at a time on this machine; the kernel drops the lock with the process that holds it."""
    with LOCK_FILE.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another up or down to end ...")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _up_node(paths: Paths) -> bool:
    """Bring up our own node; whether anything had to be done."""
    running = node.healthy(paths)
    admin = Kubectl(paths, paths.admin_kubeconfig)
    installer = addons.Installer(admin, paths.cluster / "addons", own_images=True)
    if running and not installer.missing():
        volumes.refresh(admin, paths)
        return False
    debian, groups = packages.missing_debian_packages(), _missing(paths, tools.GROUPS)
    progress = Progress(bool(debian) + len(groups) + (0 if running else node.START_STEPS) + 2)
    if debian:
        with progress.step(f"Debian packages: {' '.join(debian)}", "about 1 min"):
            packages.install_debian_packages(debian)
    _build(paths, progress, groups)
    if not running:
        node.start(paths, progress)
    with progress.step("addons: images"):
        addons.import_images(paths)
    with progress.step("addons: " + ", ".join(f"{addon.name} {addon.version}" for addon in addons.ADDONS)):
        volumes.refresh(admin, paths)
        installer.install(installer.missing())
        installer.wait()
    return True


def _up_elsewhere(paths: Paths, target: Target) -> bool:
    """Use kind or an existing cluster and install the addons that it lacks; whether anything had to be done."""
    groups = [KUBERAY, PROMETHEUS_OPERATOR, HELM] + ([] if kubectl.find(paths).exists() else [KUBERNETES])
    build(paths, groups)
    create = target is Target.KIND and not targets.kind_answers(paths)
    if create:
        with Progress(1).step(f"kind: cluster {NODE_NAME}", "about 1 min; kind's node image is downloaded once"):
            targets.kind_create(paths)
    client = Kubectl(paths, targets.kubeconfig(target, paths))
    installer = addons.Installer(client, paths.cache / "addons", own_images=False)
    missing = installer.missing()
    if missing:
        with Progress(1).step("addons: " + ", ".join(f"{addon.name} {addon.version}" for addon in missing)):
            installer.install(missing)
            installer.wait(seconds=600)
    return create or bool(missing)


def _missing(paths: Paths, groups: Sequence[ToolGroup]) -> list[ToolGroup]:
    return [group for group in groups if not group.folder(paths).exists()]


def _build(paths: Paths, progress: Progress, groups: Sequence[ToolGroup]) -> None:
    for group in _missing(paths, groups):
        tools.build(group, paths, progress)
    if not _missing(paths, tools.GROUPS):
        tools.drop_intermediates(paths)
