"""What the entry of an attempt or of a stage writes: that it began, that it lives, how it ended."""

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from ppojob_contract.durable import read_json, write_json_once
from ppojob_contract.outcomes import Outcome
from ppojob_trainer import driver_log

RESERVE_BYTES = 64 * 1024


class RunLayout(Protocol):
    """Where the files are."""

    @property
    def folder(self) -> Path: ...
    @property
    def started(self) -> Path: ...
    @property
    def heartbeat(self) -> Path: ...
    @property
    def outcome(self) -> Path: ...


Layout = TypeVar("Layout", bound=RunLayout)


class RunFiles(Generic[Layout]):
    """The files of one run."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    @property
    def stop_request(self) -> Path:
        """Private to the trainer's processes: the entry got SIGTERM and asks the others to end."""
        return self.layout.folder / "stop-requested"

    def stop_requested(self) -> bool:
        return self.stop_request.exists()

    @property
    def _reserve(self) -> Path:
        """Space kept free for the outcome, which is most needed when the storage is full."""
        return self.layout.folder / "reserve"

    def begin(self, who: dict[str, Any]) -> bool:
        """Takes the run; False where it has been started before, and then nothing was touched."""
        return write_json_once(self.layout.started, {**who, "time": time.time(), "pid": os.getpid()})

    def reserve(self) -> None:
        """Keeps room for the outcome."""
        self._reserve.write_bytes(os.urandom(RESERVE_BYTES))  # not zeros, which a file system may store as a hole

    def beat(self) -> None:
        """Says that the run makes progress."""
        self.layout.heartbeat.touch()

    def silence_seconds(self) -> float:
        """Since the last beat (or since now where there was none)."""
        try:
            return max(0.0, time.time() - self.layout.heartbeat.stat().st_mtime)
        except FileNotFoundError:
            return 0.0

    @property
    def driver_log(self) -> Path:
        """The end of what the driver printed."""
        return self.layout.folder / "driver.log"

    def with_log(self, outcome: Outcome) -> Outcome:
        """Keeps the driver's log; the outcome of a failure then says where."""
        if not driver_log.keep(self.driver_log) or not outcome.failed:
            return outcome
        where = "/".join(self.driver_log.parts[-3:])
        return replace(outcome, message=f"{outcome.message} (more in {where})")

    def finish(self, outcome: Outcome) -> None:
        """Writes the outcome, once: the first word stands."""
        self._reserve.unlink(missing_ok=True)
        write_json_once(self.layout.outcome, outcome.to_json())

    def outcome(self) -> Outcome | None:
        value = read_json(self.layout.outcome)
        return Outcome.from_json(value) if value is not None else None
