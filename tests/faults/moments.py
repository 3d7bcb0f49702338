"""The moments of a rollback, as the claim's files show them within milliseconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.support.kube import TookTooLong

from ppojob_contract.journal import RowKind, read
from ppojob_contract.layout import AttemptLayout, JobLayout

KL_BOUND = 0.2
"""Of the guardrail that rolls back."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A point of the rollback that ends an attempt."""

    name: str
    reached: Callable[[AttemptLayout, AttemptLayout], bool]
    """By the files of the attempt that is ended and of the next one."""
    every: float = 0.005
    """Seconds between looks."""

    def wait(self, layout: JobLayout, number: int, seconds: float) -> None:
        """Raises `TookTooLong`."""
        deadline = time.monotonic() + seconds
        while not self.reached(layout.attempt(number), layout.attempt(number + 1)):
            if time.monotonic() > deadline:
                raise TookTooLong(f"{self.name} of attempt {number}: not within {seconds:.0f} s")
            time.sleep(self.every)


def _bad_row(attempt: AttemptLayout, _: AttemptLayout) -> bool:
    """The guardrail's figure is out of bounds: the rollback comes two rows later."""
    return any(row.kind is RowKind.STEP and row.figures.get("kl", 0.0) > KL_BOUND for row, _ in read(attempt.journal))


def _has_steps(_: AttemptLayout, following: AttemptLayout) -> bool:
    return any(row.kind is RowKind.STEP for row, _ in read(following.journal))


BEFORE = Moment("just before the rollback", _bad_row, every=0.05)
COMMAND = Moment("command in the mailbox", lambda ended, _: ended.command.exists())
CLAIM = Moment("claimed, checkpoint loading", lambda ended, _: ended.claim.exists())
ACK = Moment("acknowledged", lambda ended, _: ended.ack.exists())
OUTCOME = Moment("old driver stopped", lambda ended, _: ended.outcome.exists())
STARTED = Moment("next attempt starting", lambda _, following: following.started.exists())
FIRST_STEP = Moment("next attempt's first step", _has_steps)

HOT = (COMMAND, CLAIM, ACK, FIRST_STEP)
COLD = (COMMAND, OUTCOME, STARTED, FIRST_STEP)
