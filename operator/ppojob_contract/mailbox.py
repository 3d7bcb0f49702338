"""One command to a running attempt, put once; whoever creates `claim` first owns what happens next."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self


class CommandKind(StrEnum):
    STOP = "Stop"
    ROLLBACK = "Rollback"


class Claimant(StrEnum):
    TRAINER = "Trainer"
    MONITOR = "Monitor"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRef:
    """A checkpoint by the attempt that wrote it and its step."""

    attempt: int
    step: int

    def to_json(self) -> dict[str, Any]:
        return {"attempt": self.attempt, "step": self.step}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        return cls(attempt=int(value["attempt"]), step=int(value["step"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Content of `command.json`. `Rollback` names its target, the absolute settings and the next attempt."""

    id: str
    kind: CommandKind
    save: bool = True
    """Stop only: whether the last step is saved first (not wanted of a run that went bad)."""
    target: CheckpointRef | None = None
    settings: Mapping[str, float] = field(default_factory=dict)
    next_attempt: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": self.kind.value,
            "save": self.save,
            "target": self.target.to_json() if self.target else None,
            "settings": dict(self.settings),
            "nextAttempt": self.next_attempt,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Raises KeyError or ValueError for what is not a command."""
        target = value.get("target")
        return cls(
            id=str(value["id"]),
            kind=CommandKind(value["kind"]),
            save=bool(value.get("save", True)),
            target=CheckpointRef.from_json(target) if target else None,
            settings={key: float(item) for key, item in value.get("settings", {}).items()},
            next_attempt=value.get("nextAttempt"),
        )
