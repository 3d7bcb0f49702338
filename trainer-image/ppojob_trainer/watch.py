"""Whether to go on: decided by the entry process from the attempt's files, beside the task runner."""

import time
from collections.abc import Callable

from ppojob_contract.attempt import AttemptConfig
from ppojob_contract.mailbox import AckResult, Command, CommandKind
from ppojob_trainer.attempt_files import AttemptFiles
from ppojob_trainer.errors import HangError
from ppojob_trainer.mailbox import Mailbox


class Stopped(Exception):
    """The attempt ends now, without a save of its own."""


class Watch:
    """Decides, from the attempt's files, whether to go on. `check` raises Stopped or HangError."""

    def __init__(
        self, attempt: AttemptConfig, files: AttemptFiles, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._attempt = attempt
        self._files = files
        self._mailbox = Mailbox(files.layout, process="entry")
        self._monotonic = monotonic
        self._asked_at: float | None = None

    def check(self) -> None:
        """To be called every second or so.

        Before the trainer has begun, a stop is obeyed here and at once: nothing is lost, and a start-up can take
        longer than the grace. Afterwards the trainer stops at its next step boundary, within the grace.
        """
        training = self._files.begun_training()
        command = self._mailbox.look()
        command = command if command is not None and command.kind is CommandKind.STOP else None
        if command is not None or self._files.stop_request.exists():
            now = self._monotonic()
            self._asked_at = now if self._asked_at is None else self._asked_at
            late = now - self._asked_at > self._attempt.graceful_stop_seconds
            if (late or not training) and self._may_act(command):
                raise Stopped("no step boundary within the grace" if training else "stopped before training began")
        self._check_silence(training)

    def _may_act(self, command: Command | None) -> bool:
        if command is None:
            return True
        if not self._mailbox.claim(command):
            return False
        self._mailbox.acknowledge(command, AckResult.DONE, step=self._files.last_step(self.first_step))
        return True

    @property
    def first_step(self) -> int:
        """The step that the attempt begins behind."""
        resume = self._attempt.resume
        return resume.checkpoint.step if resume and not resume.weights_only else 0

    def _check_silence(self, training: bool) -> None:
        limit = self._attempt.step_timeout_seconds if training else self._attempt.startup_timeout_seconds
        silence = self._files.silence_seconds()
        if silence > limit:
            what = "a phase of training" if training else "a phase of the start-up"
            raise HangError(f"no sign of life for {silence:.0f} s in {what}; the limit is {limit} s")
