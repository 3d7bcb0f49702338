"""`ppojob-stop [SECONDS]`: a pod's preStop hook. Asks the running attempt or stage to stop and waits for its outcome.

Then it waits until the container's first process can be told to end. The kernel drops a signal for PID 1 that has no
handler, and `ray start` has none in its first seconds (Ray's `_private/node.py` installs it): a pod deleted then would
keep its devices until the grace period is over.

Exits 0 whatever happens: a hook that fails would only hide the reason for which the pod ends.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ppojob_contract import names
from ppojob_contract.durable import write_json_once
from ppojob_contract.layout import AttemptLayout, JobLayout
from ppojob_contract.mailbox import Command, CommandKind, prestop_id
from ppojob_contract.protocol import LockState
from ppojob_contract.stages import StageRunLayout
from ppojob_trainer import locks
from ppojob_trainer.attempt_files import AttemptFiles
from ppojob_trainer.run_files import RunFiles
from ppojob_trainer.succession import newest_driven

DEFAULT_SECONDS = 120.0

DEAD_STAGE_SECONDS = 300.0
"""Without a sign of life from a stage; a long load shows none."""

HANDLER_SECONDS = 60.0
"""How long Ray may take to its handler: 2 s on an idle machine, more where its files are read for the first time."""


def main() -> int:
    """Deadline from the argument, else the environment, else 120 s."""
    for step in (_stop_here, lambda: wait_for_handler(HANDLER_SECONDS)):
        try:
            print(step(), flush=True)
        except (OSError, KeyError, ValueError) as error:
            print(f"cannot stop: {error!r}", flush=True)
    return 0


def _stop_here() -> str:
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get(names.ENV_STOP_SECONDS, "")
    seconds = float(given) if given else DEFAULT_SECONDS
    root = Path(os.environ[names.ENV_JOB_ROOT])
    return stop(JobLayout(root), os.environ.get(names.ENV_POD_UID, "pod"), seconds)


def stop(
    job: JobLayout,
    pod_uid: str,
    seconds: float,
    lock_files: tuple[Path, ...] = (Path(names.DRIVER_LOCK), Path(names.RUNNER_LOCK)),
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Stops the newest attempt or stage, if it runs; what came of it, for the log."""
    layout = running(job)
    if layout is None:
        return stop_stage(job, seconds, lock_files, sleep)
    if _dead_here(lock_files):
        return f"{_name(layout)} has no driver here"
    command = Command(id=prestop_id(pod_uid), kind=CommandKind.STOP)
    if not write_json_once(layout.command, command.to_json()):
        # The slot holds another command: the trainer's own way of a signal does not need it.
        AttemptFiles(layout).stop_request.touch()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        current = running(job)
        if current is None:
            return f"{_name(layout)} has ended"
        layout = current  # a rollback may have been under way, and the stop comes after it
        if _dead_here(lock_files):
            return f"{_name(layout)}'s driver has gone without an outcome"
        sleep(0.5)
    return f"{_name(layout)} has not ended within {seconds:g} s"


def stop_stage(job: JobLayout, seconds: float, lock_files: tuple[Path, ...], sleep: Callable[[float], None]) -> str:
    """Stops the stage that was begun last, if it shows life."""
    begun = sorted(job.root.glob("stages/*/*/runs/*/started"), key=lambda path: path.stat().st_mtime)
    files = RunFiles(StageRunLayout(begun[-1].parent)) if begun else None
    if files is None or files.outcome() or files.silence_seconds() > DEAD_STAGE_SECONDS or _dead_here(lock_files):
        return "no attempt is running"
    files.stop_request.touch()
    deadline = time.monotonic() + seconds
    while not files.outcome():
        if time.monotonic() >= deadline:
            return f"the stage has not ended within {seconds:g} s"
        if _dead_here(lock_files):
            return "the stage's driver has gone without an outcome"
        sleep(0.5)
    return "the stage has ended"


def wait_for_handler(
    seconds: float,
    process: Path = Path("/proc/1/status"),
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Waits until the container's first process catches SIGTERM; whether it does, for the log."""
    deadline = time.monotonic() + seconds
    while not _catches_sigterm(process):
        if time.monotonic() >= deadline:
            return f"the first process still takes no SIGTERM after {seconds:g} s"
        sleep(0.1)
    return "the first process takes SIGTERM"


def _catches_sigterm(process: Path) -> bool:
    caught = next(line for line in process.read_text().splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def running(job: JobLayout) -> AttemptLayout | None:
    """The attempt that a driver works for, as far as the files say."""
    number = newest_driven(job)
    layout = job.attempt(number) if number is not None else None
    return layout if layout is not None and not layout.outcome.exists() else None


def _name(layout: AttemptLayout) -> str:
    return f"attempt {int(layout.folder.name)}"


def _dead_here(lock_files: tuple[Path, ...]) -> bool:
    """Seen gone, or never here: a head pod that takes a lost one's place gets no driver, and its cluster is replaced.

    Workers' pods have no folder of locks, and nothing is known there.
    """
    head = any(path.parent.is_dir() for path in lock_files)
    return head and all(locks.state(path) is LockState.FREE for path in lock_files)


if __name__ == "__main__":
    sys.exit(main())
