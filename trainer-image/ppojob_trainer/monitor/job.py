"""A job's state and rows, from its files."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ppojob_contract import names
from ppojob_contract.durable import read_json
from ppojob_contract.figures import ALWAYS_READ
from ppojob_contract.journal import Row, RowKind
from ppojob_contract.layout import AttemptLayout, JobLayout
from ppojob_contract.mailbox import Ack, CheckpointRef, Claimant, Command
from ppojob_contract.manifest import NAME as MANIFEST
from ppojob_contract.outcomes import Outcome
from ppojob_contract.protocol import AttemptState, CheckpointState, LockState, State, StepRow
from ppojob_contract.stages import StageState
from ppojob_trainer import datasets, locks
from ppojob_trainer.monitor import stages
from ppojob_trainer.monitor.checkpoints import CheckpointScanner
from ppojob_trainer.monitor.journals import JournalReader

MOST_ROWS = 500
"""In one answer of `/v1/steps`; the next call brings the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Whose monitor this is, and where its files are."""

    namespace: str
    name: str
    uid: str
    pod_uid: str
    root: Path
    lock_files: tuple[Path, ...] = (Path(names.DRIVER_LOCK), Path(names.RUNNER_LOCK))

    @classmethod
    def from_environment(cls) -> "Identity":
        """Raises KeyError for a variable that is not set."""
        environment = os.environ
        return cls(
            namespace=environment[names.ENV_NAMESPACE],
            name=environment[names.ENV_NAME],
            uid=environment[names.ENV_UID],
            pod_uid=environment[names.ENV_POD_UID],
            root=Path(environment[names.ENV_JOB_ROOT]),
        )


class Job:
    """Not safe for several threads at once: the server runs one call after another."""

    def __init__(self, identity: Identity, now: Callable[[], float] = time.time) -> None:
        self.identity = identity
        self.layout = JobLayout(identity.root)
        self._now = now
        self._journals: dict[int, JournalReader] = {}
        self._scanner = CheckpointScanner()

    def state(self) -> State:
        """Everything on disk and the locks, as of now."""
        lock = self.lock()
        attempts = tuple(self._attempt(number) for number in self.layout.attempts())
        return State(
            job_uid=self.identity.uid,
            pod_uid=self.identity.pod_uid,
            lock=lock,
            attempts=attempts,
            checkpoints=self.checkpoints(lock),
            confirmed=self.confirmed(),
            free_bytes=self._free_bytes(),
            stages=self.stages(),
        )

    def stages(self) -> tuple[StageState, ...]:
        return stages.scan(self.layout.root, self._now)

    def lock(self) -> LockState:
        """Held while the entry or its task runner lives."""
        states = {locks.state(path) for path in self.identity.lock_files}
        return LockState.HELD if LockState.HELD in states else LockState.FREE

    def checkpoints(self, lock: LockState) -> tuple[CheckpointState, ...]:
        newest = max(self.layout.attempts(), default=None)
        alive = newest is not None and lock is LockState.HELD and not self.layout.attempt(newest).outcome.exists()
        found = self._scanner.scan(self.layout, newest if alive else None)
        failed = self._failed_loads()
        return tuple(
            replace(item, problem=failed[item.ref]) if item.complete and item.ref in failed else item for item in found
        )

    def _failed_loads(self) -> dict[CheckpointRef, str]:
        """Checkpoints that look whole and were not: an attempt ended at loading them. One whose manifest was touched
        since then has been mended.
        """
        failed = {}
        for number in self.layout.attempts():
            layout = self.layout.attempt(number)
            value = read_json(layout.outcome)
            outcome = Outcome.from_json(value) if value else None
            if outcome and outcome.unusable and not self._mended(outcome.unusable, layout):
                failed[outcome.unusable] = f"attempt {number} could not load it: {outcome.message}"
        return failed

    def _mended(self, ref: CheckpointRef, attempt: AttemptLayout) -> bool:
        manifest = self.layout.attempt(ref.attempt).checkpoint(ref.step) / MANIFEST
        return manifest.exists() and manifest.stat().st_mtime > attempt.outcome.stat().st_mtime

    def confirmed(self) -> tuple[CheckpointRef, ...]:
        value = read_json(self.layout.confirmed) or {}
        return tuple(CheckpointRef.from_json(item) for item in value.get("checkpoints", []))

    def journal(self, attempt: int) -> JournalReader:
        """The attempt's journal, up to date."""
        reader = self._journals.get(attempt)
        if reader is None:
            reader = self._journals[attempt] = JournalReader(self.layout.attempt(attempt).journal)
        reader.refresh()
        return reader

    def rows(self, attempt: int, after: int, metrics: Sequence[str]) -> list[StepRow]:
        """Rows behind the first `after`, cut down to `metrics` (by default those that the operator always reads)."""
        wanted = metrics or ALWAYS_READ
        return [_cut(row, wanted) for row in self.journal(attempt).read(after, MOST_ROWS)]

    def _attempt(self, number: int) -> AttemptState:
        layout = self.layout.attempt(number)
        reader = self.journal(number)
        command = read_json(layout.command)
        claim, ack = read_json(layout.claim), read_json(layout.ack)
        outcome = read_json(layout.outcome)
        last = reader.totals.last
        return AttemptState(
            attempt=number,
            rows=reader.rows,
            last_step=last.step if last else None,
            last_heartbeat_age_seconds=self._age(layout),
            command=Command.from_json(command) if command else None,
            claimed_by=Claimant(claim["by"]) if claim else None,
            ack=Ack.from_json(ack) if ack else None,
            outcome=Outcome.from_json(outcome) if outcome else None,
            dataset_digest=datasets.digest_of(layout),
            steps=reader.totals.steps,
            step_seconds=reader.totals.seconds,
        )

    def _free_bytes(self) -> int | None:
        try:
            volume = os.statvfs(self.layout.root)
        except FileNotFoundError:  # before the first attempt
            return None
        return volume.f_bavail * volume.f_frsize

    def _age(self, layout: AttemptLayout) -> float | None:
        try:
            return max(0.0, self._now() - layout.heartbeat.stat().st_mtime)
        except FileNotFoundError:
            return None


def _cut(row: Row, metrics: Sequence[str]) -> StepRow:
    values: dict[str, Any] = {}
    if row.kind is not RowKind.EVENT:
        values = {name: value for name in metrics if (value := row.value(name)) is not None}
    return StepRow(kind=row.kind, step=row.step, time=row.time, values=values, event=row.event, message=row.message)
