"""Starts and stops the node. There are no pid files: the control group says what runs (see `cgroups`)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import ssl
import subprocess
import urllib.request
from pathlib import Path

from . import cgroups, containerd, daemons, network, pki, tools
from .daemons import Daemon
from .progress import Progress
from .settings import API_URL, CNI_NETWORK, NODE_NAME, Paths
from .shell import ClusterError, CommandError, run, tail, wait_until

# What a stop leaves in the cluster's folder: the images (dear to import again) and the logs (for the curious).
_KEPT_BY_STOP = {"containerd", "log", "bin"}
START_STEPS = 3

# Made on demand by containerd, CNI and the kubelet; ours to remove only when empty. Children before parents.
_SHARED_FOLDERS = (
    "/run/containerd/s",
    "/run/containerd/runc/k8s.io",
    "/run/containerd/runc",
    "/run/containerd",
    "/var/lib/cni/results",
    "/var/lib/cni",
    "/var/lib/kubelet/device-plugins",
    "/var/lib/kubelet",
    "/var/log/containers",
)


def start(paths: Paths, progress: Progress) -> None:
    """Start a fresh node: an empty store, but the images of the last one. Whatever was there before is removed."""
    with progress.step("node: clearing what an earlier one left"):
        stop(paths)
    with progress.step("node: network, keys, store, API server and containerd"):
        _prepare(paths)
        for daemon in [*daemons.store_and_runtime(paths), daemons.api_server(paths)]:
            _spawn(daemon, paths)
        _await(paths, "containerd", lambda: containerd.answers(paths), 30)
        if containerd.forget_containers(paths):
            _restart_containerd(paths)
        containerd.import_pause(paths)
        _await(paths, "API server", lambda: api_ready(paths), 60)
    with progress.step("node: kubelet, scheduler, controllers and proxy"):
        for daemon in daemons.control_plane_and_node(paths):
            _spawn(daemon, paths)
        _await(paths, f"node {NODE_NAME} Ready", lambda: node_ready(paths), 90)


def stop(paths: Paths) -> None:
    """Remove all of the node but its images and logs; does nothing where there is no node.

    Safe from any state: it asks the kernel, and only for what carries the node's own names or lies in its folder.
    """
    cgroups.kill_all()
    _remove_shim_sockets(paths)
    _unmount_below(paths.cluster)
    network.remove()
    cgroups.remove()
    _remove_traces_elsewhere(paths)
    if paths.cluster.exists():
        for entry in paths.cluster.iterdir():
            if entry.name not in _KEPT_BY_STOP:
                _delete(entry)


def healthy(paths: Paths) -> bool:
    """Whether every daemon runs, containerd and the API answer, and the node is Ready."""
    running = set(cgroups.daemon_processes())
    if not (daemons.all_programs(paths) <= running and network.exists()):
        return False
    return containerd.answers(paths) and api_ready(paths) and node_ready(paths)


def api_ready(paths: Paths) -> bool:
    """Whether the API server says that it is ready."""
    return _get(paths, "/readyz") == b"ok"


def node_ready(paths: Paths) -> bool:
    """Whether the node's Ready condition is True."""
    answer = _get(paths, f"/api/v1/nodes/{NODE_NAME}")
    if answer is None:
        return False
    conditions = json.loads(answer).get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def mounts_below(folder: Path) -> list[str]:
    """Mount points in the folder, the deepest first."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        # Octal escapes stand for blanks and backslashes.
        point = line.split()[4].encode().decode("unicode_escape")
        if point.startswith(f"{folder}/"):
            found.append(point)
    return sorted(found, key=len, reverse=True)


def _prepare(paths: Paths) -> None:
    # Containers of any user have to reach their volumes through it; the keys inside have their own modes.
    paths.cluster.mkdir(parents=True, exist_ok=True, mode=0o755)
    shutil.rmtree(paths.logs, ignore_errors=True)
    for folder in (paths.logs, paths.cluster / "run", paths.containerd_root):
        folder.mkdir(parents=True, exist_ok=True)
    tools.link(paths)
    cgroups.create()
    network.create()
    pki.create(paths)
    daemons.write_configuration(paths)


def _spawn(daemon: Daemon, paths: Paths) -> None:
    """Start a daemon in the node's control group and network namespace, in a session of its own."""
    entries = cgroups.entry_files()

    def enter_group() -> None:
        for entry in entries:
            file = os.open(entry, os.O_WRONLY)
            os.write(file, b"0")
            os.close(file)

    environment = {**os.environ, "PATH": f"{paths.bin}{os.pathsep}{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
    with (paths.logs / f"{daemon.program}.log").open("ab") as log:
        subprocess.Popen(
            [*network.enter(), *daemon.command(paths)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd="/",
            start_new_session=True,
            # In the group before its first own child. Nothing but system calls: other threads may be running.
            preexec_fn=enter_group,  # noqa: PLW1509
        )


def _await(paths: Paths, what: str, condition: object, seconds: float) -> None:
    """Wait for a condition, and on failure show the end of the logs of those daemons that are gone."""
    assert callable(condition)
    try:
        wait_until(what, condition, seconds)
    except ClusterError as error:
        running = cgroups.daemon_processes()
        logs = [file for file in sorted(paths.logs.glob("*.log")) if file.stem not in running]
        ends = [f"--- {file} (not running)\n{tail(file)}" for file in logs]
        raise ClusterError("\n".join([str(error), *ends, f"logs are in {paths.logs}"])) from error


def _restart_containerd(paths: Paths) -> None:
    """Its CRI part keeps in memory what it found at its start, so it has to start again without it."""
    process = cgroups.daemon_processes().get("containerd")
    if process is not None:
        os.kill(process, 15)
        wait_until("containerd to end", lambda: "containerd" not in cgroups.daemon_processes(), 20)
    _spawn(daemons.store_and_runtime(paths)[1], paths)
    _await(paths, "containerd", lambda: containerd.answers(paths), 30)


def _get(paths: Paths, path: str) -> bytes | None:
    """Ask the API server with the administrator's certificate; None where it does not answer with 200."""
    try:
        context = ssl.create_default_context(cafile=str(paths.pki / "ca.crt"))
        context.load_cert_chain(paths.pki / "admin.crt", paths.pki / "admin.key")
        direct, secure = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        with urllib.request.build_opener(direct, secure).open(API_URL + path, timeout=2) as answer:
            return bytes(answer.read())
    except (OSError, ValueError):
        return None


def _unmount_below(folder: Path) -> None:
    """Take every mount in our folder away; one that is busy goes when its last user does."""
    for point in mounts_below(folder):
        try:
            run("umount", point)
        except CommandError:
            with contextlib.suppress(CommandError):
                run("umount", "--lazy", point)


def _remove_shim_sockets(paths: Paths) -> None:
    """The shims' sockets lie in a folder that all containerds share: remove those that our state names."""
    for file in paths.cluster.glob("run/containerd/io.containerd.runtime.v2.task/*/*/bootstrap.json"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            address = str(json.loads(file.read_text())["address"])
            Path(address.removeprefix("unix://")).unlink(missing_ok=True)


def _remove_traces_elsewhere(paths: Paths) -> None:
    """Files whose place neither containerd nor the kubelet lets us choose, and the folders if that empties them."""
    for file in Path("/var/lib/cni/results").iterdir() if Path("/var/lib/cni/results").exists() else ():
        if str(paths.cluster) in file.read_text(errors="replace") or file.name.startswith(CNI_NETWORK):
            file.unlink(missing_ok=True)
    for link in Path("/var/log/containers").glob("*.log"):
        if link.is_symlink() and link.readlink().is_relative_to(paths.cluster):
            link.unlink()
    plugins = Path("/var/lib/kubelet/device-plugins")
    # Another kubelet of this machine would have more than this in its folder.
    if plugins.exists() and [entry.name for entry in plugins.parent.iterdir()] == [plugins.name]:
        for name in ("kubelet.sock", "kubelet_internal_checkpoint"):
            (plugins / name).unlink(missing_ok=True)
    for folder in _SHARED_FOLDERS:
        with contextlib.suppress(OSError):
            Path(folder).rmdir()


def _delete(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()
