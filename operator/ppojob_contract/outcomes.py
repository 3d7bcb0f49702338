"""How an attempt ended."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from ppojob_contract.mailbox import CheckpointRef


class ExitClass(StrEnum):
    """Class of an ending; the operator's failure policy is written in these words."""

    SUCCEEDED = "Succeeded"
    STOPPED = "Stopped"
    CONFIG_ERROR = "ConfigError"
    DATA_ERROR = "DataError"
    OUT_OF_MEMORY = "OutOfMemory"
    NON_FINITE = "NonFinite"
    COMMUNICATION = "Communication"
    STORAGE_ERROR = "StorageError"
    HANG = "Hang"
    DUPLICATE = "Duplicate"
    UNKNOWN = "Unknown"

    @property
    def retryable(self) -> bool:
        """Whether the same configuration may end differently the next time."""
        return self in {
            ExitClass.OUT_OF_MEMORY,
            ExitClass.COMMUNICATION,
            ExitClass.HANG,
            ExitClass.DUPLICATE,
            ExitClass.STORAGE_ERROR,
            ExitClass.UNKNOWN,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Content of an attempt's `outcome.json`, written once, last of all."""

    exit_class: ExitClass
    message: str
    """One line for a person; never a secret."""
    step: int
    """Last finished step; 0 before the first."""
    unusable: CheckpointRef | None = None
    """The job's own checkpoint that the attempt could not load, where that is what ended it."""

    @property
    def failed(self) -> bool:
        return self.exit_class not in {ExitClass.SUCCEEDED, ExitClass.STOPPED}

    def to_json(self) -> dict[str, Any]:
        value = {"class": self.exit_class.value, "message": self.message, "step": self.step}
        return value if self.unusable is None else value | {"unusable": self.unusable.to_json()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Raises KeyError or ValueError for what is not an outcome."""
        unusable = value.get("unusable")
        return cls(
            exit_class=ExitClass(value["class"]),
            message=str(value["message"]),
            step=int(value["step"]),
            unusable=CheckpointRef.from_json(unusable) if unusable else None,
        )
