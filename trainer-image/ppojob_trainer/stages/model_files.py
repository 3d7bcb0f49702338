"""Models that a job names: by a folder, or by a name on a hub."""

from pathlib import Path

from ppojob_trainer.errors import ConfigError


def require(model: str) -> None:
    """Raises ConfigError for a folder that is not there; transformers would take it for a name on a hub."""
    if model.startswith(("/", ".")) and not Path(model, "config.json").is_file():
        found = "has no config.json" if Path(model).is_dir() else "is not there"
        raise ConfigError(f"model {model} {found}")
