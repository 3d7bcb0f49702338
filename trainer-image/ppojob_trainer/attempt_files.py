"""What the trainer's processes write beside the journal: start, life signs, end."""

import os
import time
from pathlib import Path
from typing import Any

from ppojob_contract import journal
from ppojob_contract.attempt import AttemptConfig
from ppojob_contract.durable import read_json, write_json, write_json_once
from ppojob_contract.journal import Row, RowKind
from ppojob_contract.layout import AttemptLayout
from ppojob_contract.outcomes import Outcome

RESERVE_BYTES = 64 * 1024


class AttemptFiles:
    """The files of one attempt, from the trainer's side."""

    def __init__(self, layout: AttemptLayout, predecessor: "AttemptFiles | None" = None) -> None:
        self.layout = layout
        self._predecessor = predecessor
        """The attempt in whose driver this one was begun."""

    @property
    def stop_request(self) -> Path:
        """Private to the trainer's processes: the entry got SIGTERM and asks the task runner to end."""
        return self.layout.folder / "stop-requested"

    def stop_requested(self) -> bool:
        """Also while the driver was a predecessor's: who asked may not have seen yet that it is this attempt's."""
        before = self._predecessor
        return self.stop_request.exists() or (before is not None and before.stop_requested())

    @property
    def _reserve(self) -> Path:
        """Space kept free for the outcome, which is most needed when the storage is full."""
        return self.layout.folder / "reserve"

    def begin(self, who: dict[str, Any]) -> bool:
        """Takes the attempt; False where it has been started before, and then nothing was touched."""
        return write_json_once(self.layout.started, {**who, "time": time.time(), "pid": os.getpid()})

    def reserve(self) -> None:
        """Keeps room for the outcome."""
        self._reserve.write_bytes(os.urandom(RESERVE_BYTES))  # not zeros, which a file system may store as a hole

    def begun_training(self) -> bool:
        """The trainer has loaded everything and opened the journal: from here on it ends at step boundaries."""
        return self.layout.journal.exists()

    def beat(self) -> None:
        """Says that the attempt makes progress."""
        self.layout.heartbeat.touch()

    def silence_seconds(self) -> float:
        """Since the last beat (or since now where there was none)."""
        try:
            return max(0.0, time.time() - self.layout.heartbeat.stat().st_mtime)
        except FileNotFoundError:
            return 0.0

    def event(self, step: int, event: str, message: str = "") -> None:
        """Adds an event row to the journal."""
        row = Row(kind=RowKind.EVENT, step=step, time=time.time(), event=event, message=message)
        journal.append(self.layout.journal, row)

    def last_step(self, default: int) -> int:
        """Last step whose row is in the journal."""
        steps = [row.step for row, _ in journal.read(self.layout.journal) if row.kind is RowKind.STEP]
        return max(steps, default=default)

    def write_config(self, attempt: AttemptConfig, verl: dict[str, Any], platform: str) -> None:
        """What the attempt was told, and every key of verl's that is set."""
        write_json(self.layout.config, {**attempt.to_json(), "verl": verl, "platform": platform})

    def finish(self, outcome: Outcome) -> None:
        """Writes the outcome, once: the first word stands."""
        self._reserve.unlink(missing_ok=True)
        write_json_once(self.layout.outcome, outcome.to_json())

    def outcome(self) -> Outcome | None:
        value = read_json(self.layout.outcome)
        return Outcome.from_json(value) if value is not None else None
