"""The monitor's HTTP answers. Ages are measured by the monitor: two clocks are never compared.

    GET  /healthz                                           200 when the monitor itself runs
    GET  /metrics                                           Prometheus text
    GET  /v1/state                                          `State`
    GET  /v1/steps?attempt=1&after=0&metrics=kl,a/b&wait=25 `Steps`: rows behind the first `after`, at once or when
                                                            one comes, an empty list after `wait` seconds
    PUT  /v1/command?attempt=1     bearer token; a `Command`: 201 put, 200 the same id again,
                                   409 another is there (the body is that one), 410 the attempt has ended
    PUT  /v1/claim?attempt=1       bearer token; revokes: {"claimedBy": "Trainer" | "Monitor"}
    PUT  /v1/confirmed             bearer token; {"checkpoints": [CheckpointRef, ...]}, oldest first
    POST /v1/delete                bearer token; {"checkpoints": [CheckpointRef, ...]}, those to delete: `Deletion`

Errors are {"error": "<one line>"} with 400, 401, 404, 409, 410 or 507 (the claim cannot be written).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from ppojob_contract.journal import RowKind
from ppojob_contract.mailbox import Ack, CheckpointRef, Claimant, Command
from ppojob_contract.numbers import number, plain
from ppojob_contract.outcomes import Outcome
from ppojob_contract.stages import Stage, StageState

STATE_PATH = "/v1/state"
STEPS_PATH = "/v1/steps"
COMMAND_PATH = "/v1/command"
CLAIM_PATH = "/v1/claim"
CONFIRMED_PATH = "/v1/confirmed"
DELETE_PATH = "/v1/delete"
METRICS_PATH = "/metrics"
HEALTH_PATH = "/healthz"


class LockState(StrEnum):
    HELD = "Held"
    FREE = "Free"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptState:
    """What is on disk of one attempt."""

    attempt: int
    rows: int
    last_step: int | None
    last_heartbeat_age_seconds: float | None
    """Since the trainer last said that it is alive; None before its first word."""
    command: Command | None
    claimed_by: Claimant | None
    ack: Ack | None
    outcome: Outcome | None
    dataset_digest: str | None = None
    """SHA-256 of the data that it was given, once known."""
    steps: int = 0
    """Step rows."""
    step_seconds: float = 0.0
    """What these steps took, together."""

    def to_json(self) -> dict[str, Any]:
        return {
            "attempt": self.attempt,
            "rows": self.rows,
            "lastStep": self.last_step,
            "lastHeartbeatAgeSeconds": self.last_heartbeat_age_seconds,
            "command": self.command.to_json() if self.command else None,
            "claimedBy": self.claimed_by.value if self.claimed_by else None,
            "ack": self.ack.to_json() if self.ack else None,
            "outcome": self.outcome.to_json() if self.outcome else None,
            "datasetDigest": self.dataset_digest,
            "steps": self.steps,
            "stepSeconds": self.step_seconds,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """The last ones are missing in answers of a monitor that is older than the operator."""
        command, claimed_by = value["command"], value["claimedBy"]
        ack, outcome = value["ack"], value["outcome"]
        return cls(
            attempt=int(value["attempt"]),
            rows=int(value["rows"]),
            last_step=value["lastStep"],
            last_heartbeat_age_seconds=value["lastHeartbeatAgeSeconds"],
            command=Command.from_json(command) if command else None,
            claimed_by=Claimant(claimed_by) if claimed_by else None,
            ack=Ack.from_json(ack) if ack else None,
            outcome=Outcome.from_json(outcome) if outcome else None,
            dataset_digest=value.get("datasetDigest"),
            steps=int(value.get("steps", 0)),
            step_seconds=float(value.get("stepSeconds", 0.0)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointState:
    """A checkpoint folder as found on disk."""

    ref: CheckpointRef
    problem: str | None
    """Why it cannot be loaded (no manifest yet, a file missing or cut); None for a whole one."""
    saving: bool
    """The attempt that writes it is alive and the manifest not there yet."""
    size_bytes: int
    world_size: int | None

    @property
    def complete(self) -> bool:
        return self.problem is None

    def to_json(self) -> dict[str, Any]:
        return {
            **self.ref.to_json(),
            "problem": self.problem,
            "saving": self.saving,
            "sizeBytes": self.size_bytes,
            "worldSize": self.world_size,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        return cls(
            ref=CheckpointRef.from_json(value),
            problem=value["problem"],
            saving=bool(value["saving"]),
            size_bytes=int(value["sizeBytes"]),
            world_size=value["worldSize"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Answer of `/v1/state`."""

    job_uid: str
    pod_uid: str
    lock: LockState
    attempts: tuple[AttemptState, ...]
    checkpoints: tuple[CheckpointState, ...]
    confirmed: tuple[CheckpointRef, ...]
    free_bytes: int | None = None
    """Of the volume, for the trainer; None where it does not say."""
    stages: tuple[StageState, ...] = ()

    def attempt(self, number_: int) -> AttemptState | None:
        return next((item for item in self.attempts if item.attempt == number_), None)

    def stage(self, stage: Stage, key: str) -> StageState | None:
        return next((item for item in self.stages if item.stage is stage and item.key == key), None)

    def to_json(self) -> dict[str, Any]:
        return {
            "jobUID": self.job_uid,
            "podUID": self.pod_uid,
            "lock": self.lock.value,
            "attempts": [item.to_json() for item in self.attempts],
            "checkpoints": [item.to_json() for item in self.checkpoints],
            "confirmed": [item.to_json() for item in self.confirmed],
            "freeBytes": self.free_bytes,
            "stages": [item.to_json() for item in self.stages],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError for what is not such an answer."""
        return cls(
            job_uid=value["jobUID"],
            pod_uid=value["podUID"],
            lock=LockState(value["lock"]),
            attempts=tuple(AttemptState.from_json(item) for item in value["attempts"]),
            checkpoints=tuple(CheckpointState.from_json(item) for item in value["checkpoints"]),
            confirmed=tuple(CheckpointRef.from_json(item) for item in value["confirmed"]),
            free_bytes=value.get("freeBytes"),
            stages=tuple(StageState.from_json(item) for item in value.get("stages", ())),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A checkpoint that is not deleted, and why."""

    ref: CheckpointRef
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {**self.ref.to_json(), "reason": self.reason}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        return cls(ref=CheckpointRef.from_json(value), reason=str(value["reason"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """Answer of `/v1/delete`. What is deleted is no checkpoint any more; its space is freed soon after."""

    deleted: tuple[CheckpointRef, ...]
    refused: tuple[Refusal, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "deleted": [item.to_json() for item in self.deleted],
            "refused": [item.to_json() for item in self.refused],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError for what is not such an answer."""
        return cls(
            deleted=tuple(CheckpointRef.from_json(item) for item in value["deleted"]),
            refused=tuple(Refusal.from_json(item) for item in value["refused"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """A journal row cut down to the metrics that were asked for. Absent ones are absent, never null."""

    kind: RowKind
    step: int
    time: float
    values: Mapping[str, float]
    event: str = ""
    message: str = ""

    def to_json(self) -> dict[str, Any]:
        row: dict[str, Any] = {"kind": self.kind.value, "step": self.step, "time": self.time}
        if self.kind is RowKind.EVENT:
            return row | {"event": self.event, "message": self.message}
        return row | {"values": plain(dict(self.values))}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        values = {key: parsed for key, item in value.get("values", {}).items() if (parsed := number(item)) is not None}
        return cls(
            kind=RowKind(value["kind"]),
            step=int(value["step"]),
            time=float(value["time"]),
            values=values,
            event=str(value.get("event", "")),
            message=str(value.get("message", "")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Answer of `/v1/steps`; the next call's `after` is this one's plus the number of rows."""

    job_uid: str
    pod_uid: str
    attempt: int
    after: int
    rows: tuple[StepRow, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "jobUID": self.job_uid,
            "podUID": self.pod_uid,
            "attempt": self.attempt,
            "after": self.after,
            "rows": [row.to_json() for row in self.rows],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError for what is not such an answer."""
        return cls(
            job_uid=value["jobUID"],
            pod_uid=value["podUID"],
            attempt=int(value["attempt"]),
            after=int(value["after"]),
            rows=tuple(StepRow.from_json(row) for row in value["rows"]),
        )
