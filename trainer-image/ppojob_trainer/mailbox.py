"""The trainer's side of the one-slot mailbox: look, claim before any effect, acknowledge after it."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from ppojob_contract.durable import read_json, write_json_once
from ppojob_contract.layout import AttemptLayout
from ppojob_contract.mailbox import Ack, AckResult, Claimant, Command, CommandKind

POLL_SECONDS = 0.25
"""Between two looks at the claim while waiting for generation; a storage server is asked no more often."""


@dataclass(frozen=True, slots=True)
class Mail:
    """A command to act on."""

    command: Command
    revoked: bool = False
    """A Rollback that the operator took back: it is to be carried out in another way, so this attempt ends."""

    @property
    def asks_to_end(self) -> bool:
        return self.revoked or self.command.kind is CommandKind.STOP


class Mailbox:
    """One attempt's mailbox as the process `process` uses it; several of the trainer's processes may look."""

    def __init__(self, layout: AttemptLayout, process: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._layout = layout
        self._process = process
        self._monotonic = monotonic
        self._last_look = -math.inf
        self._settled = False

    def due(self, at_most_every: float) -> bool:
        """Whether the last look is so long ago, in seconds, that the files are to be read again."""
        now = self._monotonic()
        if now - self._last_look < at_most_every:
            return False
        self._last_look = now
        return True

    def look(self) -> Mail | None:
        """What nobody acts on yet. Raises ValueError for a file that is not a command."""
        if self._settled:
            return None
        value = read_json(self._layout.command)
        if value is None:
            return None
        command = Command.from_json(value)
        claim = read_json(self._layout.claim)
        if claim is None:
            return Mail(command)
        if claim["by"] == Claimant.MONITOR.value and command.kind is CommandKind.ROLLBACK:
            return Mail(command, revoked=True)
        self._settled = True
        return None

    def claim(self, command: Command) -> bool:
        """Whether this process owns the command now; False when the operator has revoked it or another acts."""
        claim = {"by": Claimant.TRAINER.value, "id": command.id, "process": self._process}
        won = write_json_once(self._layout.claim, claim)
        self._settled = won
        return won

    def acknowledge(self, command: Command, result: AckResult, *, step: int = 0, message: str = "") -> None:
        """Says what became of the command, once."""
        ack = Ack(id=command.id, kind=command.kind, result=result, time=time.time(), step=step, message=message)
        write_json_once(self._layout.ack, ack.to_json())
