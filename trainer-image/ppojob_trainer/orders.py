"""What the attempt has been asked to do: looked up between steps and while samples are generated."""

from collections.abc import Callable

from ppojob_contract.mailbox import AckResult, Command, CommandKind
from ppojob_trainer.attempt_files import AttemptFiles
from ppojob_trainer.classification import classify
from ppojob_trainer.mailbox import Mailbox


class LeaveFit(Exception):
    """Raised out of verl's loop; `JobTrainer.fit` acts on it."""


class StopRequested(LeaveFit):
    """Save what is done, where `save` says so, and end. `command` is None where nothing waits for an answer."""

    def __init__(self, by: str, *, save: bool, command: Command | None = None) -> None:
        super().__init__(by)
        self.by = by
        self.save = save
        self.command = command


class RollbackRequested(LeaveFit):
    """Go back to the command's target. The command is claimed and nothing has been touched yet."""

    def __init__(self, command: Command) -> None:
        super().__init__(command.id)
        self.command = command


class Orders:
    """Of one attempt, for its task runner. `check` raises for a Rollback that cannot be carried out, whatever it is:
    nothing has been touched then.
    """

    def __init__(self, files: AttemptFiles, check: Callable[[Command], None]) -> None:
        self.mailbox = Mailbox(files.layout, process="runner")
        self._files = files
        self._check = check

    def obey(self, *, at_most_every: float = 0.0) -> None:
        """Raises LeaveFit where a signal or a command asks for it and this process is the one to act."""
        if not self.mailbox.due(at_most_every):
            return
        if self._files.stop_requested():
            raise StopRequested("SIGTERM", save=True)
        mail = self.mailbox.look()
        if mail is None:
            return
        if mail.revoked:
            raise StopRequested("a revoked rollback", save=False)
        command = mail.command
        if not self.mailbox.claim(command):
            return
        if command.kind is CommandKind.STOP:
            raise StopRequested("a command", save=command.save, command=command)
        try:
            self._check(command)
        except Exception as error:
            self.mailbox.acknowledge(command, AckResult.REFUSED, message=classify(error)[1])
            return
        raise RollbackRequested(command)
