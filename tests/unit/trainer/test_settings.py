import pytest

from ppojob_contract.manifest import Manifest
from ppojob_contract.parameters import Parameter
from ppojob_trainer.errors import ConfigError
from ppojob_trainer.settings import Capabilities, check, kl_coefficient

KL = Parameter.KL_COEFFICIENT.value
ALL = Capabilities(critic=True, kl_loss=True, kl_reward=True)


def manifest(state: dict[str, float], settings: dict[str, float]) -> Manifest:
    return Manifest(attempt=1, step=5, world_size=1, files={}, state=state, settings=settings)


@pytest.mark.parametrize(
    ("settings", "saved", "expected"),
    [
        ({}, None, None),
        ({KL: 0.1}, None, 0.1),
        ({}, manifest({KL: 0.08}, {}), 0.08),
        ({KL: 0.1}, manifest({KL: 0.08}, {}), 0.1),
        ({KL: 0.1}, manifest({KL: 0.08}, {KL: 0.1}), 0.08),
        ({KL: 0.2}, manifest({KL: 0.08}, {KL: 0.1}), 0.2),
        ({KL: 0.2}, manifest({}, {KL: 0.2}), 0.2),
        ({}, manifest({}, {}), None),
    ],
)
def test_which_coefficient_is_in_force(
    settings: dict[str, float], saved: Manifest | None, expected: float | None
) -> None:
    assert kl_coefficient(settings, saved) == expected


def test_settings_that_have_no_place() -> None:
    check({parameter.value: 1.0 for parameter in Parameter}, ALL)
    for name, capabilities in (
        ("Temperature", ALL),
        (Parameter.CRITIC_LEARNING_RATE.value, Capabilities(critic=False, kl_loss=True, kl_reward=True)),
        (KL, Capabilities(critic=True, kl_loss=False, kl_reward=False)),
    ):
        with pytest.raises(ConfigError, match=name):
            check({name: 1.0}, capabilities)
