"""What one attempt is told: the value of `names.ENV_ATTEMPT` and the content of `config.json`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from ppojob_contract.data_plan import DataPlan
from ppojob_contract.mailbox import CheckpointRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """The checkpoint an attempt begins from."""

    checkpoint: CheckpointRef
    weights_only: bool = False
    folder: str = ""
    """Absolute, in the trainer's pods, where it is not one of the job's own; the reference's attempt is 0 then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSettings:
    """What is kept of the samples."""

    every_steps: int = 10
    keep_last: int = 200
    validation: bool = True

    def to_json(self) -> dict[str, Any]:
        return {"everySteps": self.every_steps, "keepLast": self.keep_last, "validation": self.validation}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(
            every_steps=int(value.get("everySteps", 10)),
            keep_last=int(value.get("keepLast", 200)),
            validation=bool(value.get("validation", True)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptConfig:
    """One attempt of one job. A number names one configuration for ever."""

    namespace: str
    name: str
    uid: str
    attempt: int
    root: str
    """Absolute path of the job's folder in the trainer's pods."""
    overrides: Mapping[str, Any]
    """verl's configuration keys (dotted) and their values: scalars, lists of scalars, or maps of them."""
    reward_terms: Sequence[Mapping[str, Any]]
    """`spec.reward.terms` as accepted; the trainer's reward function computes their weighted sum."""
    total_steps: int
    max_response_length: int
    """Tokens; what `responseClippedFraction` compares with."""
    devices_per_node: int
    """The entry waits until so many are free on each node."""
    nodes: int
    settings: Mapping[str, float] = field(default_factory=dict)
    """Adjusted parameters, absolute, by their name in the API; set after every load."""
    resume: Resume | None = None
    data: DataPlan = field(default_factory=DataPlan)
    afterwards: Mapping[str, Any] = field(default_factory=dict)
    """What the stages after training will read and write, by stage; looked at before training where it is there."""
    samples: SampleSettings = field(default_factory=SampleSettings)
    checksums: bool = False
    """Whether manifests carry checksums of large files too."""
    graceful_stop_seconds: int = 120
    startup_timeout_seconds: int = 1800
    step_timeout_seconds: int = 3600

    @property
    def first_step(self) -> int:
        """The step that the attempt begins behind."""
        return self.resume.checkpoint.step if self.resume and not self.resume.weights_only else 0

    def to_json(self) -> dict[str, Any]:
        return {
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "attempt": self.attempt,
            "root": self.root,
            "overrides": dict(self.overrides),
            "rewardTerms": [dict(term) for term in self.reward_terms],
            "totalSteps": self.total_steps,
            "maxResponseLength": self.max_response_length,
            "devicesPerNode": self.devices_per_node,
            "nodes": self.nodes,
            "settings": dict(self.settings),
            "resume": None
            if self.resume is None
            else {
                **self.resume.checkpoint.to_json(),
                "weightsOnly": self.resume.weights_only,
                **({"folder": self.resume.folder} if self.resume.folder else {}),
            },
            "data": self.data.to_json(),
            "afterwards": dict(self.afterwards),
            "samples": self.samples.to_json(),
            "checksums": self.checksums,
            "gracefulStopSeconds": self.graceful_stop_seconds,
            "startupTimeoutSeconds": self.startup_timeout_seconds,
            "stepTimeoutSeconds": self.step_timeout_seconds,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError for what is not such a configuration."""
        resume = value.get("resume")
        return cls(
            namespace=value["namespace"],
            name=value["name"],
            uid=value["uid"],
            attempt=int(value["attempt"]),
            root=value["root"],
            overrides=value["overrides"],
            reward_terms=value["rewardTerms"],
            total_steps=int(value["totalSteps"]),
            max_response_length=int(value["maxResponseLength"]),
            devices_per_node=int(value["devicesPerNode"]),
            nodes=int(value["nodes"]),
            settings={key: float(item) for key, item in value.get("settings", {}).items()},
            resume=Resume(
                checkpoint=CheckpointRef.from_json(resume),
                weights_only=bool(resume.get("weightsOnly")),
                folder=str(resume.get("folder", "")),
            )
            if resume
            else None,
            data=DataPlan.from_json(value.get("data", {})),
            afterwards=value.get("afterwards", {}),
            samples=SampleSettings.from_json(value.get("samples", {})),
            checksums=bool(value.get("checksums")),
            graceful_stop_seconds=int(value["gracefulStopSeconds"]),
            startup_timeout_seconds=int(value["startupTimeoutSeconds"]),
            step_timeout_seconds=int(value["stepTimeoutSeconds"]),
        )
