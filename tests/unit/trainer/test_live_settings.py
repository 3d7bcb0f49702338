"""Settings in one process that runs several attempts: what a later one does not set is as configured."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf

from ppojob_contract.manifest import Manifest
from ppojob_trainer.errors import ConfigError
from ppojob_trainer.live_settings import LiveSettings


@dataclass
class Group:
    given: list[dict[str, float]] = field(default_factory=list)

    def apply_settings(self, settings: dict[str, float]) -> list[dict[str, float]]:
        self.given.append(settings)
        return [{"lr": settings.get("LearningRate", 1e-3)}]


def trainer(*, kl_reward: bool = True) -> Any:
    config = {
        "algorithm": {"use_kl_in_reward": kl_reward, "kl_ctrl": {"kl_coef": 0.001}},
        "actor_rollout_ref": {"actor": {"entropy_coeff": 0.0, "use_kl_loss": False}},
    }
    return SimpleNamespace(
        config=OmegaConf.create(config),
        use_critic=False,
        actor_rollout_wg=Group(),
        kl_ctrl_in_reward=SimpleNamespace(value=0.5),
    )


def saved(coefficient: float) -> Manifest:
    return Manifest(attempt=1, step=4, world_size=1, files={}, state={"KLCoefficient": coefficient})


def test_what_is_not_set_any_more_is_taken_back() -> None:
    subject = trainer()
    live = LiveSettings(subject)
    said = live.apply({"EntropyCoefficient": 0.02, "LearningRate": 5e-4}, None)
    assert said == "learning rate 0.0005, EntropyCoefficient 0.02, LearningRate 0.0005"
    assert subject.config.actor_rollout_ref.actor.entropy_coeff == 0.02
    live.apply({}, None)
    assert subject.config.actor_rollout_ref.actor.entropy_coeff == 0.0
    assert subject.actor_rollout_wg.given == [{"EntropyCoefficient": 0.02, "LearningRate": 5e-4}, {}]


def test_the_adaptive_coefficient_never_comes_from_the_attempt_before() -> None:
    subject = trainer()
    live = LiveSettings(subject)
    live.apply({}, saved(0.08))
    assert subject.kl_ctrl_in_reward.value == 0.08
    subject.kl_ctrl_in_reward.value = 0.3  # as training adapts it
    live.apply({}, None)
    assert subject.kl_ctrl_in_reward.value == 0.001
    live.apply({"KLCoefficient": 0.2}, saved(0.08))
    assert subject.kl_ctrl_in_reward.value == 0.2


def test_a_setting_without_a_place_changes_nothing() -> None:
    subject = trainer(kl_reward=False)
    with pytest.raises(ConfigError, match="KLCoefficient"):
        LiveSettings(subject).apply({"KLCoefficient": 0.2}, None)
    assert subject.actor_rollout_wg.given == []
