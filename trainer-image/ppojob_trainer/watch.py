"""Whether to go on: decided by the entry process from the attempt's files, beside the task runner."""

import time
from collections.abc import Callable
from pathlib import Path

from ppojob_contract.attempt import AttemptConfig
from ppojob_contract.layout import JobLayout
from ppojob_contract.mailbox import AckResult
from ppojob_trainer.attempt_files import AttemptFiles
from ppojob_trainer.errors import HangError, Stopped
from ppojob_trainer.mailbox import Mail, Mailbox
from ppojob_trainer.succession import handed_over, successor


class Watch:
    """Decides, from the attempt's files, whether to go on. `check` raises Stopped or HangError.

    `attempt` and `files` are those of the attempt that the driver works for now: hot rollbacks are followed.
    """

    def __init__(
        self, attempt: AttemptConfig, files: AttemptFiles, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.attempt = attempt
        self.files = files
        self._mailbox = Mailbox(files.layout, process="entry")
        self._monotonic = monotonic
        self._asked_at: float | None = None

    def follow(self) -> None:
        """Takes notice of rollbacks that the trainer has acknowledged."""
        while (command := handed_over(self.files.layout)) is not None:
            self.attempt = successor(self.attempt, command)
            layout = JobLayout(Path(self.attempt.root)).attempt(self.attempt.attempt)
            self.files = AttemptFiles(layout, predecessor=self.files)
            self._mailbox = Mailbox(layout, process="entry")

    def check(self) -> None:
        """To be called every second or so.

        Before the trainer has begun, a stop is obeyed here and at once: nothing is lost, and a start-up can take
        longer than the grace. Afterwards the trainer stops at its next step boundary, within the grace. A Rollback
        waits for the trainer in either case; one that is revoked is a stop.
        """
        self.follow()
        training = self.files.begun_training()
        mail = self._mailbox.look()
        mail = mail if mail is not None and mail.asks_to_end else None
        if mail is not None or self.files.stop_requested():
            now = self._monotonic()
            self._asked_at = now if self._asked_at is None else self._asked_at
            late = now - self._asked_at > self.attempt.graceful_stop_seconds
            if (late or not training) and self._may_act(mail):
                raise Stopped("no step boundary within the grace" if training else "stopped before training began")
        self._check_silence(training)

    def _may_act(self, mail: Mail | None) -> bool:
        if mail is None or mail.revoked:
            return True
        if not self._mailbox.claim(mail.command):
            return False
        self._mailbox.acknowledge(mail.command, AckResult.DONE, step=self.last_step())
        return True

    def last_step(self) -> int:
        """The last finished step, as far as the journal says."""
        return self.files.last_step(self.attempt.first_step)

    def _check_silence(self, training: bool) -> None:
        limit = self.attempt.step_timeout_seconds if training else self.attempt.startup_timeout_seconds
        silence = self.files.silence_seconds()
        if silence > limit:
            what = "a phase of training" if training else "a phase of the start-up"
            raise HangError(f"no sign of life for {silence:.0f} s in {what}; the limit is {limit} s")
