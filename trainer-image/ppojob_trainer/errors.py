"""Failures whose class is known where they arise."""

from ppojob_contract.outcomes import ExitClass


class AttemptError(Exception):
    """Ends the attempt with `exit_class`; its text is the outcome's message. Survives pickling by Ray."""

    exit_class = ExitClass.UNKNOWN


class ConfigError(AttemptError):
    exit_class = ExitClass.CONFIG_ERROR


class DataError(AttemptError):
    exit_class = ExitClass.DATA_ERROR


class StorageError(AttemptError):
    exit_class = ExitClass.STORAGE_ERROR


class CheckpointError(StorageError):
    """A checkpoint that cannot be loaded; its folder is in `folder`."""

    def __init__(self, message: str, folder: str) -> None:
        super().__init__(message, folder)  # both, or it could not be pickled
        self.folder = folder

    def __str__(self) -> str:
        return str(self.args[0])


class HangError(AttemptError):
    exit_class = ExitClass.HANG


class CommunicationError(AttemptError):
    exit_class = ExitClass.COMMUNICATION


class Stopped(Exception):
    """Ends the attempt or the stage now, because it was asked to; no failure."""


class NonFiniteError(AttemptError):
    exit_class = ExitClass.NON_FINITE
