"""What a job says of its reward model's training."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from ppojob_trainer.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Lora:
    """Adapters instead of all weights; they are merged in what is published."""

    rank: int
    alpha: int
    target_modules: tuple[str, ...]
    """Empty: all linear layers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardSettings:
    """Of `spec.reward.terms[].training`."""

    term: str
    model: str
    trust_remote_code: bool
    train: tuple[str, ...]
    validation: tuple[str, ...]
    max_length: int
    """Tokens of prompt and answer together; a longer pair is left out and counted."""
    epochs: int
    max_steps: int | None
    batch_size: int
    """Pairs in all for one optimizer step."""
    micro_batch_size_per_device: int
    learning_rate: float
    lora: Lora | None
    save_steps: int
    seed: int
    minimum_accuracy: float | None
    """Judged by the operator; here it is only told."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Raises ConfigError naming the field."""
        try:
            lora = value["lora"]
            return cls(
                term=str(value["term"]),
                model=str(value["model"]),
                trust_remote_code=bool(value["trustRemoteCode"]),
                train=tuple(str(path) for path in value["train"]),
                validation=tuple(str(path) for path in value["validation"]),
                max_length=int(value["maxLength"]),
                epochs=int(value["epochs"]),
                max_steps=None if value["maxSteps"] is None else int(value["maxSteps"]),
                batch_size=int(value["batchSize"]),
                micro_batch_size_per_device=int(value["microBatchSizePerDevice"]),
                learning_rate=float(value["learningRate"]),
                lora=None if lora is None else _lora(lora),
                save_steps=int(value["saveSteps"]),
                seed=int(value["seed"]),
                minimum_accuracy=None if value["minimumAccuracy"] is None else float(value["minimumAccuracy"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"settings of the reward model's training: {error!r}") from error


@dataclass(frozen=True, slots=True)
class Batches:
    """How the pairs of one optimizer step are divided."""

    per_device: int
    """Pairs in one forward pass of a device."""
    accumulation: int
    """Forward passes for one optimizer step."""


def batches(settings: RewardSettings, devices: int) -> Batches:
    """The largest division that is no larger than asked for. Raises ConfigError where there is none."""
    if settings.batch_size % devices:
        raise ConfigError(
            f"reward term {settings.term}: training.batchSize {settings.batch_size} cannot be shared evenly by "
            f"{devices} devices; make it a multiple of {devices}"
        )
    share = settings.batch_size // devices
    most = min(settings.micro_batch_size_per_device, share)
    per_device = max(size for size in range(1, most + 1) if share % size == 0)
    return Batches(per_device, share // per_device)


def _lora(value: Mapping[str, Any]) -> Lora:
    return Lora(
        rank=int(value["rank"]),
        alpha=int(value["alpha"]),
        target_modules=tuple(str(name) for name in value["targetModules"]),
    )
