# mypy: disable-error-code="import, misc, no-untyped-call, untyped-decorator, attr-defined, union-attr, arg-type"
"""An attempt's settings in the running trainer and its workers."""

from collections.abc import Mapping
from typing import Any

from omegaconf import open_dict

from ppojob_contract.manifest import Manifest
from ppojob_contract.parameters import Parameter
from ppojob_trainer import settings


class LiveSettings:
    """Sets them after every load: a checkpoint brings back the rate it was saved with, and keeps no other parameter.

    What an attempt does not set is as configured, whatever an attempt before it in this process had.
    """

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        algorithm, actor = trainer.config.algorithm, trainer.config.actor_rollout_ref.actor
        self._entropy = actor.entropy_coeff
        self._kl_coefficient = float(algorithm.kl_ctrl.kl_coef)
        self.capabilities = settings.Capabilities(
            critic=trainer.use_critic, kl_loss=actor.use_kl_loss, kl_reward=algorithm.use_kl_in_reward
        )

    def apply(self, given: Mapping[str, float], loaded: Manifest | None) -> str:
        """Returns what is in force, in words."""
        settings.check(given, self.capabilities)
        trainer, values = self._trainer, dict(given)
        rates = {"learning rate": float(trainer.actor_rollout_wg.apply_settings(values)[0]["lr"])}
        if trainer.use_critic:
            rates["critic learning rate"] = float(trainer.critic_wg.apply_settings(values)[0]["lr"])
        with open_dict(trainer.config):  # the driver decides by it whether entropy is computed
            actor = trainer.config.actor_rollout_ref.actor
            actor.entropy_coeff = values.get(Parameter.ENTROPY_COEFFICIENT, self._entropy)
        if self.capabilities.kl_reward:
            coefficient = settings.kl_coefficient(given, loaded)
            trainer.kl_ctrl_in_reward.value = self._kl_coefficient if coefficient is None else coefficient
        return ", ".join(f"{name} {value:g}" for name, value in (rates | values).items())
