"""One command to a running attempt, put once; whoever creates `claim` first owns what happens next.

A Rollback goes one of these ways:

    claimed by the trainer, acknowledged Done    the next attempt runs in the same driver; its journal has begun
    claimed by the trainer, acknowledged Failed  the driver ends with an outcome; the next attempt's number is used up
    claimed by the trainer, never acknowledged   the driver died in between; the next attempt's number is used up
    claimed by the monitor (revoked)             the trainer stops without saving, as for Stop with `save` false
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from ppojob_contract.data_plan import DataPlan


class CommandKind(StrEnum):
    STOP = "Stop"
    ROLLBACK = "Rollback"


class Claimant(StrEnum):
    TRAINER = "Trainer"
    MONITOR = "Monitor"


def prestop_id(pod_uid: str) -> str:
    """Id of the Stop that a pod's preStop hook puts; the operator's are ids of its intents."""
    return f"prestop-{pod_uid}"


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
    data: DataPlan = field(default_factory=DataPlan)
    """Rollback only: the next attempt's."""

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": self.kind.value,
            "save": self.save,
            "target": self.target.to_json() if self.target else None,
            "settings": dict(self.settings),
            "nextAttempt": self.next_attempt,
            "data": self.data.to_json(),
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
            data=DataPlan.from_json(value.get("data", {})),
        )


class AckResult(StrEnum):
    """What became of a claimed command."""

    DONE = "Done"
    REFUSED = "Refused"
    """Nothing was changed; the attempt goes on."""
    FAILED = "Failed"
    """Begun, and not brought to its end: the driver ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """Content of `ack.json`, written once, after the command's last effect."""

    id: str
    kind: CommandKind
    result: AckResult
    time: float
    """Seconds since the epoch, by the trainer's clock."""
    step: int = 0
    """Last finished step after the command."""
    message: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": self.kind.value,
            "result": self.result.value,
            "time": self.time,
            "step": self.step,
            "message": self.message,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Raises KeyError or ValueError for what is not an acknowledgement."""
        return cls(
            id=str(value["id"]),
            kind=CommandKind(value["kind"]),
            result=AckResult(value["result"]),
            time=float(value["time"]),
            step=int(value.get("step", 0)),
            message=str(value.get("message", "")),
        )
