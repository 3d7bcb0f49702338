"""What an attempt's settings mean for a configuration: which can be set in it, and which KL coefficient is in force."""

from collections.abc import Mapping
from dataclasses import dataclass

from ppojob_contract.manifest import Manifest
from ppojob_contract.parameters import Parameter
from ppojob_trainer.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Of verl's configuration: what there is to set."""

    critic: bool
    kl_loss: bool
    kl_reward: bool


def check(settings: Mapping[str, float], capabilities: Capabilities) -> None:
    """Raises ConfigError for a setting that this configuration has no place for."""
    known = {parameter.value for parameter in Parameter}
    for name in settings:
        if name not in known:
            raise ConfigError(f"setting {name} is not known")
    if Parameter.CRITIC_LEARNING_RATE in settings and not capabilities.critic:
        raise ConfigError(f"setting {Parameter.CRITIC_LEARNING_RATE} needs a critic")
    if Parameter.KL_COEFFICIENT in settings and not (capabilities.kl_loss or capabilities.kl_reward):
        raise ConfigError(f"setting {Parameter.KL_COEFFICIENT} needs a KL term in the loss or in the reward")


def kl_coefficient(settings: Mapping[str, float], manifest: Manifest | None) -> float | None:
    """Of the KL term in the reward after a load; None leaves the configured one.

    The checkpoint's adaptive value holds, unless the setting is a new one: one that was already in force when the
    checkpoint was written has had its effect on that value.
    """
    name = Parameter.KL_COEFFICIENT.value
    given = settings.get(name)
    if manifest is None or name not in manifest.state:
        return given
    if given is not None and given != manifest.settings.get(name):
        return given
    return manifest.state[name]
