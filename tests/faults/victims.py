"""Who is killed: always at once (SIGKILL), as by a node that fails or the kernel's memory killer."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.support.run import Run


@dataclass(frozen=True, slots=True)
class Victim:
    """Processes of this machine, on which the node runs."""

    name: str
    processes: Callable[[Run], Iterable[int]]

    def kill(self, run: Run) -> int:
        """How many processes were killed."""
        killed = 0
        for process in list(self.processes(run)):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed += 1
        return killed


def _all(matches: Callable[[Path, list[str]], bool]) -> Iterable[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = [os.fsdecode(word) for word in (folder / "cmdline").read_bytes().split(b"\0") if word]
            if words and matches(folder, words):
                yield int(folder.name)
        except OSError:
            continue


def _of_pods(run: Run, matches: Callable[[list[str]], bool]) -> Iterable[int]:
    """By control group: the environment of Ray's workers cannot be read once they have given themselves a title."""
    uids = [item["metadata"]["uid"] for item in run.kube.items("pods", run.namespace, f"rlhf.dev/job={run.name}")]

    def inside(folder: Path, words: list[str]) -> bool:
        group = (folder / "cgroup").read_text().replace("_", "-")
        return any(uid in group for uid in uids) and matches(words)

    return _all(inside)


def _named(program: str) -> Callable[[list[str]], bool]:
    return lambda words: program in [Path(word).name for word in words[:2]]


def _titled(title: str) -> Callable[[list[str]], bool]:
    return lambda words: words[0].startswith(title)


OPERATOR = Victim("operator", lambda _: _all(lambda _folder, words: words[1:3] == ["-m", "ppojob_operator"]))
KUBERAY = Victim("KubeRay's operator", lambda _: _all(lambda _folder, words: words[0] == "/manager"))
MONITOR = Victim("monitor", lambda run: _of_pods(run, _named("ppojob-monitor")))
HEAD_POD = Victim("head pod", lambda run: _of_pods(run, lambda _: True))
DRIVER = Victim("driver (entry)", lambda run: _of_pods(run, _named("ppojob-train")))
TASK_RUNNER = Victim("driver (task runner)", lambda run: _of_pods(run, _titled("ray::JobRunner")))

ALL = (OPERATOR, MONITOR, KUBERAY, DRIVER, TASK_RUNNER, HEAD_POD)
