"""Stages beside training: what a run of one is told, where its files are, what the monitor says of it.

    stages/<stage>/<key>/
        runs/0001/{config.json, started, heartbeat, figures.json, outcome.json}
        work/       kept between the runs of a key, so that one goes on where another was killed
        output/     appears by one rename when all of it is there; result.json and manifest.json are in it

`key` is the operator's hash of all that a stage's output follows from, outputs of earlier stages included: an output
that is there is never made again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from ppojob_contract.numbers import number, plain
from ppojob_contract.outcomes import Outcome

MAX_FIGURES = 64
"""Of one stage; what is more is left out of metrics and status."""


class Stage(StrEnum):
    """What one RayJob does beside training."""

    PREPARE = "Prepare"
    REWARD = "Reward"
    EVALUATE = "Evaluate"
    EXPORT = "Export"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageConfig:
    """All that one run of a stage is told: the value of `names.ENV_STAGE`."""

    namespace: str
    name: str
    uid: str
    root: str
    """Absolute path of the job's folder in the trainer's pods."""
    stage: Stage
    run: int
    """1 for the first RayJob of the stage; never used again."""
    key: str
    settings: Mapping[str, Any]
    """By stage; see the programs' settings in `ppojob_trainer.stages`."""
    device: str = "CPU"
    devices_per_node: int = 1
    nodes: int = 1

    @property
    def devices(self) -> int:
        """In all."""
        return self.nodes * self.devices_per_node

    def to_json(self) -> dict[str, Any]:
        return {
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "root": self.root,
            "stage": self.stage.value,
            "run": self.run,
            "key": self.key,
            "settings": dict(self.settings),
            "device": self.device,
            "devicesPerNode": self.devices_per_node,
            "nodes": self.nodes,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError for what is not such a configuration."""
        return cls(
            namespace=value["namespace"],
            name=value["name"],
            uid=value["uid"],
            root=value["root"],
            stage=Stage(value["stage"]),
            run=int(value["run"]),
            key=value["key"],
            settings=value["settings"],
            device=str(value["device"]),
            devices_per_node=int(value["devicesPerNode"]),
            nodes=int(value["nodes"]),
        )


@dataclass(frozen=True, slots=True)
class StageRunLayout:
    """Files of one run."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "config.json"

    @property
    def started(self) -> Path:
        """Created once (O_EXCL): Ray may submit a job again."""
        return self.folder / "started"

    @property
    def heartbeat(self) -> Path:
        return self.folder / "heartbeat"

    @property
    def figures(self) -> Path:
        """The newest figures of the running program, replaced by rename."""
        return self.folder / "figures.json"

    @property
    def outcome(self) -> Path:
        return self.folder / "outcome.json"


@dataclass(frozen=True, slots=True)
class StageLayout:
    """Files of one stage with one set of settings."""

    folder: Path

    @classmethod
    def of(cls, root: Path, stage: Stage, key: str) -> Self:
        return cls(root / "stages" / stage.value.lower() / key)

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def output(self) -> Path:
        return self.folder / "output"

    @property
    def result(self) -> Path:
        return self.output / "result.json"

    def run(self, number_: int) -> StageRunLayout:
        return StageRunLayout(self.folder / "runs" / f"{number_:04d}")

    def runs(self) -> list[int]:
        """Numbers of the runs that left something, ascending."""
        folder = self.folder / "runs"
        return sorted(int(entry.name) for entry in folder.iterdir() if entry.name.isdigit()) if folder.is_dir() else []


@dataclass(frozen=True, slots=True, kw_only=True)
class StageResult:
    """What a finished stage found out; content of `result.json`."""

    message: str
    """One line for a person."""
    figures: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"message": self.message, "figures": plain(dict(self.figures))}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Raises KeyError or TypeError for what is not a result."""
        return cls(message=str(value["message"]), figures=figures_of(value["figures"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class StageState:
    """The newest run of a stage with one key, as found on disk."""

    stage: Stage
    key: str
    run: int
    last_heartbeat_age_seconds: float | None
    outcome: Outcome | None
    complete: bool
    """The output is there."""
    message: str = ""
    """Of the result, once complete."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """The result's, or while it runs the newest."""

    def to_json(self) -> dict[str, Any]:
        return {
            "stage": self.stage.value,
            "key": self.key,
            "run": self.run,
            "lastHeartbeatAgeSeconds": self.last_heartbeat_age_seconds,
            "outcome": self.outcome.to_json() if self.outcome else None,
            "complete": self.complete,
            "message": self.message,
            "figures": plain(dict(self.figures)),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError for what is not such a state."""
        outcome = value["outcome"]
        return cls(
            stage=Stage(value["stage"]),
            key=value["key"],
            run=int(value["run"]),
            last_heartbeat_age_seconds=value["lastHeartbeatAgeSeconds"],
            outcome=Outcome.from_json(outcome) if outcome else None,
            complete=bool(value["complete"]),
            message=str(value["message"]),
            figures=figures_of(value["figures"]),
        )


def figures_of(values: Mapping[str, Any]) -> dict[str, float]:
    """Numbers among `values`, at most `MAX_FIGURES`."""
    found = {key: parsed for key, item in values.items() if (parsed := number(item)) is not None}
    return dict(list(found.items())[:MAX_FIGURES])
