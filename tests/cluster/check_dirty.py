"""Checks that `up` recovers from any dirty state, and that `down` leaves nothing behind and hits nothing foreign.

Run as `python3 -m tests.cluster.check_dirty`, as root; it takes the development node down and up several times.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from . import addons, cgroups, lifecycle, network, node
from .kubectl import Kubectl
from .progress import say
from .settings import CGROUP, CNI_NETWORK, HOST_LINK, NETNS, Paths, paths
from .shell import ClusterError, run, wait_until

# Far above what a quiet machine needs: it is a bound on hanging, not a figure.
_UP_SECONDS = 180.0
_SHARED_PLACES = ("/run/containerd", "/var/lib/cni/results", "/var/lib/kubelet", "/var/log/containers")


def everything_killed_at_once(where: Paths) -> None:
    """Power loss, as far as the node can tell: all processes gone, all else still there."""
    victims = cgroups.processes()
    assert len(victims) > 10, victims
    _kill(victims)
    assert node.mounts_below(where.cluster), "containers' mounts should have been left behind"
    assert network.exists()


def daemons_killed_but_containers_alive(where: Paths) -> None:
    """The pods of the old node go on running without anybody who knows them."""
    _kill(set(cgroups.daemon_processes().values()))
    assert cgroups.processes(), where


def only_the_runtime_killed(where: Paths) -> None:
    """One daemon missing is enough not to be healthy."""
    _kill({cgroups.daemon_processes()["containerd"]})
    assert (where.cluster / "run").exists()


def state_files_deleted_under_a_running_node(where: Paths) -> None:
    """Keys and state are gone while all processes still run."""
    for name in ("pki", "kubeconfig"):
        shutil.rmtree(where.cluster / name)
    assert cgroups.daemon_processes()


def start_interrupted(where: Paths) -> None:
    """`up` itself is killed in the middle of a start, at several moments."""
    lifecycle.down(where)
    for seconds in (0.3, 1.0, 3.0, 6.0):
        with subprocess.Popen([sys.executable, "-m", "tests.cluster", "up"], stderr=subprocess.DEVNULL) as starting:
            # Not a wait for a condition: the moments are arbitrary on purpose.
            time.sleep(seconds)
            starting.kill()


def stale_names_without_processes(where: Paths) -> None:
    """Half-made namespace, link and control groups of a run that died early."""
    lifecycle.down(where)
    Path("/run/netns").mkdir(exist_ok=True)
    Path("/run/netns", NETNS).touch()
    run("ip", "link", "add", HOST_LINK, "type", "veth", "peer", "name", f"{HOST_LINK}x")
    for root in cgroups.roots():
        (root / "daemons" / "old").mkdir(parents=True, exist_ok=True)


SCENARIOS: tuple[Callable[[Paths], None], ...] = (
    everything_killed_at_once,
    daemons_killed_but_containers_alive,
    only_the_runtime_killed,
    state_files_deleted_under_a_running_node,
    start_interrupted,
    stale_names_without_processes,
)


def recovers(where: Paths, scenario: Callable[[Paths], None]) -> None:
    """Make the mess, then expect one `up` to give a healthy node within the deadline."""
    scenario(where)
    began = time.monotonic()
    lifecycle.up(where)
    took = time.monotonic() - began
    assert node.healthy(where)
    assert len(addons.available(Kubectl(where, where.admin_kubeconfig))) == len(addons.ADDONS)
    assert took < _UP_SECONDS, f"up took {took:.0f} s"
    say(f"== {scenario.__name__}: up again in {took:.1f} s")


def second_up_changes_nothing(where: Paths) -> None:
    """A healthy node is left alone: the same processes run afterwards."""
    before = cgroups.daemon_processes()
    lifecycle.up(where)
    assert cgroups.daemon_processes() == before


def down_leaves_nothing_and_spares_others(where: Paths) -> None:
    """After `down` no process, mount, namespace, link, route or control group of ours is there; foreign ones are."""
    with _foreign_things() as still_there:
        lifecycle.down(where)
        lifecycle.down(where)
        assert still_there(), "down has hit something that is not ours"
    assert not cgroups.processes()
    assert not any(root.exists() for root in cgroups.roots())
    assert not node.mounts_below(where.cluster), node.mounts_below(where.cluster)
    assert not network.exists()
    assert "10.231.0." not in run("ip", "route", "show", "table", "all")
    assert not _processes_of(where)
    traces = [path for place in _SHARED_PLACES if Path(place).exists() for path in Path(place).rglob("*")]
    ours = [path for path in traces if CNI_NETWORK in path.name or str(where.cluster) in str(path.resolve())]
    assert not ours, ours


def _kill(victims: set[int]) -> None:
    """Kill processes at once and wait until they are gone: on a busy machine that takes a moment."""
    for pid in victims:
        with contextlib.suppress(ProcessLookupError):  # a probe's process, say, that has just ended by itself
            os.kill(pid, signal.SIGKILL)
    wait_until("the processes to be gone", lambda: not victims & cgroups.processes(), 30)


@contextlib.contextmanager
def _foreign_things() -> Iterator[Callable[[], bool]]:
    """A process called kubelet, a pod-like network namespace and a control group that belong to somebody else."""
    name = "cni-somebody-else"
    group = cgroups.roots()[0].with_name(f"{CGROUP}-somebody-else")
    with tempfile.TemporaryDirectory() as folder:
        program = shutil.copy("/bin/sleep", Path(folder, "kubelet"))
        run("ip", "netns", "add", name)
        group.mkdir()
        with subprocess.Popen([program, "600"]) as process:
            try:
                yield lambda: process.poll() is None and Path("/run/netns", name).exists() and group.exists()
            finally:
                process.kill()
                run("ip", "netns", "delete", name)
                group.rmdir()


def _processes_of(where: Paths) -> list[str]:
    """Processes whose command line names the node's folder; others may use the built programs as they like."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if any(word.startswith(f"{where.cluster}/") or f"={where.cluster}/" in word for word in words):
                found.append(f"{process.name} {words[0]}")
    return found


def main() -> int:
    """Run all checks; print a line for each and a summary."""
    where = paths()
    lifecycle.up(where)
    checks: list[tuple[str, Callable[[], None]]] = [
        (scenario.__name__, lambda scenario=scenario: recovers(where, scenario))  # type: ignore[misc]
        for scenario in SCENARIOS
    ]
    checks.append(("second_up_changes_nothing", lambda: second_up_changes_nothing(where)))
    checks.append(("down_leaves_nothing_and_spares_others", lambda: down_leaves_nothing_and_spares_others(where)))
    failed = 0
    for name, check in checks:
        try:
            check()
        except (AssertionError, ClusterError):
            failed += 1
            say(f"== {name}: FAILED\n{traceback.format_exc()}")
        else:
            say(f"== {name}: passed")
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
