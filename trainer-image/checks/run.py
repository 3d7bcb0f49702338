"""One `ppojob-train` process and what it leaves, for the checks."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ppojob_contract import journal, names
from ppojob_contract.durable import read_json, write_json_once
from ppojob_contract.journal import Row, RowKind
from ppojob_contract.layout import AttemptLayout, JobLayout
from ppojob_contract.mailbox import Ack, CheckpointRef, Command, CommandKind
from ppojob_contract.outcomes import Outcome
from ppojob_contract.protocol import LockState
from ppojob_trainer import locks

HERE = Path(__file__).parent
LOCK_FILES = (Path(names.DRIVER_LOCK), Path(names.RUNNER_LOCK))
STOP = Command(id="check-stop", kind=CommandKind.STOP)
START_SECONDS = float(os.environ.get("PPOJOB_CHECK_START_SECONDS", "600"))


class Run:
    """One `ppojob-train` process, which may run several attempts one after another."""

    def __init__(self, root: Path, attempt: int, *options: str) -> None:
        self.job = JobLayout(root)
        self.layout: AttemptLayout = self.job.attempt(attempt)
        root.mkdir(parents=True, exist_ok=True)
        self.log = root / f"attempt-{attempt}.log"
        command = [sys.executable, str(HERE / "attempt.py"), str(root), str(attempt), *options]
        self.began = time.time()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def rows(self, attempt: int | None = None) -> list[Row]:
        """Step rows of the attempt (by default the first)."""
        layout = self.layout if attempt is None else self.job.attempt(attempt)
        return [row for row, _ in journal.read(layout.journal) if row.kind is RowKind.STEP]

    def wait_for_rows(self, count: int, attempt: int | None = None) -> list[Row]:
        wait_until(lambda: len(self.rows(attempt)) >= count or self.process.poll() is not None, START_SECONDS)
        assert len(self.rows(attempt)) >= count, self.log
        return self.rows(attempt)

    def command(self, attempt: int, command: Command) -> float:
        """Puts it; the time at which it lay there."""
        assert write_json_once(self.job.attempt(attempt).command, command.to_json())
        return time.time()

    def roll_back(self, attempt: int, target: tuple[int, int], settings: dict[str, float] | None = None) -> float:
        """Asks for it; the next attempt has the next number."""
        return self.command(attempt, rollback(attempt, target, settings))

    def ack(self, attempt: int) -> Ack | None:
        value = read_json(self.job.attempt(attempt).ack)
        return Ack.from_json(value) if value else None

    def end(self) -> tuple[int, Outcome | None]:
        code = self.process.wait(300)
        return code, self.outcome(int(self.layout.folder.name))

    def outcome(self, attempt: int) -> Outcome | None:
        value = read_json(self.job.attempt(attempt).outcome)
        return Outcome.from_json(value) if value else None

    def expect(self, code: int, exit_class: str, attempt: int | None = None) -> Outcome:
        """Its end, and the only outcome among the attempts that it ran: that of `attempt`, by default the first."""
        found, outcome = self.end()
        if attempt is not None:
            assert outcome is None, outcome
            outcome = self.outcome(attempt)
        assert outcome is not None, self.log
        assert (found, outcome.exit_class.value) == (code, exit_class), (found, outcome, self.log)
        return outcome


def rollback(attempt: int, target: tuple[int, int], settings: dict[str, float] | None = None) -> Command:
    return Command(
        id=f"check-rollback-{attempt}",
        kind=CommandKind.ROLLBACK,
        target=CheckpointRef(attempt=target[0], step=target[1]),
        settings=settings or {},
        next_attempt=attempt + 1,
    )


def wait_until(condition: Callable[[], Any], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not within the deadline"
        time.sleep(0.1)


def wait_for_free_locks() -> None:
    wait_until(lambda: all(locks.state(path) is LockState.FREE for path in LOCK_FILES), 60)
