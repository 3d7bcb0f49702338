"""Models that a job names: by a folder, or by a name on a hub."""

from pathlib import Path

from ppojob_contract.durable import read_json
from ppojob_trainer.errors import ConfigError


def require(model: str) -> None:
    """Raises ConfigError for a folder that is not there; transformers would take it for a name on a hub."""
    if model.startswith(("/", ".")) and not Path(model, "config.json").is_file():
        found = "has no config.json" if Path(model).is_dir() else "is not there"
        raise ConfigError(f"model {model} {found}")


def require_reward_model(model: str) -> None:
    """Raises ConfigError too for a folder whose model writes text, by what its configuration says."""
    require(model)
    told = read_json(Path(model, "config.json")) or {}
    written = [name for name in told.get("architectures") or () if name.endswith("ForCausalLM")]
    if written:
        raise ConfigError(
            f"{model} is not a reward model but a {written[0]}: one has a sequence-classification head of one label"
        )
