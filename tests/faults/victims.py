"""Who is killed: always at once (SIGKILL), as by a node that fails or the kernel's memory killer."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.faults.moments import OUTCOME, Moment
from tests.support.kube import RELEASE, SYSTEM, Kube
from tests.support.run import Run

APPEAR_SECONDS = 60
"""For a process that begins a little after the moment."""

Matches = Callable[[Path, list[str]], bool]
"""Whether a process is one of them, by its folder in /proc and its command line."""


@dataclass(frozen=True, slots=True)
class Victim:
    """Processes of this machine, on which the node runs."""

    name: str
    matches: Callable[[Run], Matches]
    ends_driver: bool = False
    """Whether the training ends with it."""
    not_at: tuple[Moment, ...] = ()
    """When there is none of them."""
    deployment: tuple[str, str] | None = None
    """Namespace and name, where it is one."""

    def aim(self, run: Run) -> Callable[[], int]:
        """Kills when called, and says how many; what takes time to find out is found out before."""
        matches = self.matches(run)

        def kill() -> int:
            deadline = time.monotonic() + APPEAR_SECONDS
            while not (killed := sum(map(_kill, list(_all(matches))))) and time.monotonic() < deadline:
                time.sleep(0.02)
            return killed

        return kill

    def renew(self, kube: Kube) -> None:
        """Another pod: the kubelet makes the container of the one that was killed wait longer each time it dies."""
        if self.deployment:
            namespace, name = self.deployment
            kube.kubectl("rollout", "restart", f"deployment/{name}", "-n", namespace)
            kube.kubectl("rollout", "status", f"deployment/{name}", "-n", namespace, "--timeout=120s")


def _kill(process: int) -> bool:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _all(matches: Matches) -> Iterable[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = [os.fsdecode(word) for word in (folder / "cmdline").read_bytes().split(b"\0") if word]
            if words and matches(folder, words):
                yield int(folder.name)
        except OSError:
            continue


def _in_any_pod(matches: Callable[[list[str]], bool]) -> Callable[[Run], Matches]:
    return lambda _: lambda folder, words: matches(words) and "kubepods" in (folder / "cgroup").read_text()


def _in_pods(matches: Callable[[list[str]], bool]) -> Callable[[Run], Matches]:
    """By control group: the environment of Ray's workers cannot be read once they have given themselves a title."""

    def of(run: Run) -> Matches:
        pods = run.kube.items("pods", run.namespace, f"rlhf.dev/job={run.name}")
        uids = [item["metadata"]["uid"] for item in pods]

        def inside(folder: Path, words: list[str]) -> bool:
            if not matches(words):
                return False
            group = (folder / "cgroup").read_text().replace("_", "-")
            return any(uid in group for uid in uids)

        return inside

    return of


def _named(program: str) -> Callable[[list[str]], bool]:
    return lambda words: program in [Path(word).name for word in words[:2]]


def _titled(title: str) -> Callable[[list[str]], bool]:
    return lambda words: words[0].startswith(title)


OPERATOR = Victim(
    "operator", _in_any_pod(lambda words: words[1:3] == ["-m", "ppojob_operator"]), deployment=(SYSTEM, RELEASE)
)
KUBERAY = Victim(
    "KubeRay's operator",
    _in_any_pod(lambda words: words[0] == "/manager"),
    deployment=("kuberay-system", "kuberay-operator"),
)
MONITOR = Victim("monitor", _in_pods(_named("ppojob-monitor")))
HEAD_POD = Victim("head pod", _in_pods(lambda _: True), ends_driver=True)
DRIVER = Victim("driver (entry)", _in_pods(_named("ppojob-train")), ends_driver=True)
TASK_RUNNER = Victim("driver (task runner)", _in_pods(_titled("ray::JobRunner")), ends_driver=True, not_at=(OUTCOME,))

CONTROL = (OPERATOR, MONITOR, KUBERAY)
TRAINER = (DRIVER, TASK_RUNNER, HEAD_POD)
