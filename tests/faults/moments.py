"""The moments of a rollback, as the claim's files show them within milliseconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.support.kube import TookTooLong
from tests.support.run import Run

from ppojob_contract.journal import RowKind, read
from ppojob_contract.layout import AttemptLayout

LOOK_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Moment:
    """A point of the rollback that ends attempt `number`."""

    name: str
    reached: Callable[[Run, int], bool]

    def wait(self, run: Run, number: int, seconds: float) -> None:
        """Raises `TookTooLong`."""
        deadline = time.monotonic() + seconds
        while not self.reached(run, number):
            if time.monotonic() > deadline:
                raise TookTooLong(f"{self.name} of attempt {number}: not within {seconds:.0f} s")
            time.sleep(LOOK_SECONDS)


def _has_steps(layout: AttemptLayout) -> bool:
    return any(row.kind is RowKind.STEP for row, _ in read(layout.journal))


COMMAND = Moment("command in the mailbox", lambda run, number: run.layout.attempt(number).command.exists())
CLAIM = Moment("claimed, checkpoint loading", lambda run, number: run.layout.attempt(number).claim.exists())
ACK = Moment("acknowledged", lambda run, number: run.layout.attempt(number).ack.exists())
OUTCOME = Moment("old driver stopped", lambda run, number: run.layout.attempt(number).outcome.exists())
STARTED = Moment("next attempt starting", lambda run, number: run.layout.attempt(number + 1).started.exists())
FIRST_STEP = Moment("next attempt's first step", lambda run, number: _has_steps(run.layout.attempt(number + 1)))

HOT = (COMMAND, CLAIM, ACK, FIRST_STEP)
COLD = (COMMAND, OUTCOME, STARTED, FIRST_STEP)
