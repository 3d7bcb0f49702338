"""Attempts that follow one another in one driver: a hot rollback ends an attempt without an outcome.

Attempt N's acknowledgement `Done` of its Rollback command hands the driver over to the next one; before it, the next
attempt's folder may be there already, yet the driver is N's and ends with N's outcome.
"""

from dataclasses import replace

from ppojob_contract.attempt import AttemptConfig, Resume
from ppojob_contract.durable import read_json
from ppojob_contract.layout import AttemptLayout, JobLayout
from ppojob_contract.mailbox import Ack, AckResult, Command, CommandKind

STARTED_AFTER = "after"
"""Key in `started`: the attempt in whose driver this one was begun; a cold start's file lacks it."""

_VALIDATE_FIRST = "trainer.val_before_train"


def successor(attempt: AttemptConfig, command: Command) -> AttemptConfig:
    """What the attempt that a Rollback command begins is told: what a cold start in its place would be told."""
    assert command.next_attempt is not None
    assert command.target is not None
    overrides = dict(attempt.overrides)
    if _VALIDATE_FIRST in overrides:
        overrides[_VALIDATE_FIRST] = False
    return replace(
        attempt,
        attempt=command.next_attempt,
        overrides=overrides,
        resume=Resume(checkpoint=command.target),
        settings=dict(command.settings),
        data=command.data,
    )


def handed_over(layout: AttemptLayout) -> Command | None:
    """The Rollback that has ended this attempt and begun the next; None while the driver is still this one's."""
    value = read_json(layout.ack)
    if value is None:
        return None
    ack = Ack.from_json(value)
    if ack.kind is not CommandKind.ROLLBACK or ack.result is not AckResult.DONE:
        return None
    return Command.from_json(read_json(layout.command) or {})


def newest_driven(job: JobLayout) -> int | None:
    """The newest attempt that a driver works for or has worked for; an attempt that was only prepared is none."""
    for number in reversed(job.attempts()):
        layout = job.attempt(number)
        started = read_json(layout.started)
        if started is None:
            continue
        before = started.get(STARTED_AFTER)
        if before is None or handed_over(job.attempt(int(before))) is not None:
            return number
    return None
