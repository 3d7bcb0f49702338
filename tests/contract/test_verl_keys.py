"""The keys that are rendered exist in verl 0.9.1's own configuration, with values of a fitting kind."""

import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import hydra
import pytest
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from tests.support.builders import spec
from tests.support.examples import NAMES, accepted

from ppojob_contract.managed import managed_reason
from ppojob_operator.api.v1alpha1.reward import RewardModel
from ppojob_operator.domain.pipeline.settings import resolved
from ppojob_operator.domain.reward_terms import told_model
from ppojob_operator.domain.verl_keys import KEYS
from ppojob_operator.render.verl import overrides
from ppojob_trainer.rewards.engine import engine_values

SUPPORTED = "0.9.1"


@pytest.fixture(scope="module")
def tree() -> Iterator[DictConfig]:
    """verl's whole configuration in struct mode, without importing verl (which would need torch)."""
    found = importlib.util.find_spec("verl")
    assert found is not None, "verl is not installed: the development environment has it without its dependencies"
    assert found.submodule_search_locations
    folder = Path(next(iter(found.submodule_search_locations)))
    assert (folder / "version" / "version").read_text().strip() == SUPPORTED
    with hydra.initialize_config_dir(str(folder / "trainer" / "config"), version_base=None):
        yield hydra.compose("ppo_trainer")


def set_all(tree: DictConfig, values: Mapping[str, Any]) -> DictConfig:
    """Raises OmegaConfBaseException for a key that verl does not know."""
    config = tree.copy()
    OmegaConf.set_struct(config, True)
    for key, value in values.items():
        OmegaConf.update(config, key, value, merge=False)
    return config


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("first_attempt", [True, False])
def test_every_key_of_an_example_is_known(tree: DictConfig, name: str, first_attempt: bool) -> None:
    values = overrides(resolved(accepted(name)), first_attempt=first_attempt)
    config = set_all(tree, values)
    for key, value in values.items():
        assert plain(OmegaConf.select(config, key)) == value


VARIANTS: dict[str, dict[str, Any]] = {
    "lora": {"model": {"actor": {"path": "/m", "lora": {"targetModules": ["q_proj"]}}}},
    "adaptive": {"algorithm": {"kl": {"control": "Adaptive", "target": 0.05, "placement": "Both"}}},
    "grpo": {"algorithm": {"estimator": "GRPO"}, "rollout": {"samplesPerPrompt": 2, "maxBatchedTokens": 4096}},
    "no-reference": {"algorithm": {"kl": {"placement": "None", "monitor": False}}},
    "rows": {"data": {"train": ["/t"], "validation": ["/v"], "validationMaxRows": 5}},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_every_key_of_a_variant_is_known(tree: DictConfig, name: str) -> None:
    set_all(tree, overrides(spec(**VARIANTS[name]), first_attempt=True))


def test_all_keys_of_the_table_are_rendered_by_some_example_or_variant() -> None:
    specs = [accepted(name).spec for name in NAMES] + [spec(**blocks) for blocks in VARIANTS.values()]
    rendered = {key for item in specs for key in overrides(item, first_attempt=True)}
    assert {key.key for key in KEYS} <= rendered


def test_an_unknown_key_fails(tree: DictConfig) -> None:
    with pytest.raises(OmegaConfBaseException, match="no_such_key"):
        set_all(tree, {"actor_rollout_ref.actor.no_such_key": 1})


def test_no_rendered_key_is_the_trainers_own() -> None:
    assert [key.key for key in KEYS if managed_reason(key.key)] == []


def test_values_keep_the_kind_of_verls_defaults(tree: DictConfig) -> None:
    """A number where verl has a number, text where it has text: nothing is converted on the way."""
    for name in NAMES:
        for key, value in overrides(resolved(accepted(name)), first_attempt=True).items():
            default = plain(OmegaConf.select(tree, key))
            if isinstance(default, bool) or isinstance(value, bool):
                assert isinstance(value, bool), key
            elif isinstance(default, int | float):
                assert isinstance(value, int | float), key


def plain(value: Any) -> Any:
    return OmegaConf.to_container(value) if isinstance(value, DictConfig | ListConfig) else value


@pytest.mark.parametrize("engine", ["VLLM", "SGLang"])
def test_the_keys_of_a_served_reward_model_are_known(tree: DictConfig, engine: str) -> None:
    """The trainer sets them, from the term that the operator renders."""
    given = RewardModel.model_validate({"path": "/rm", "engine": engine, "tensorParallelSize": 2})
    values = engine_values([{"name": "liked", "model": told_model(given, spec(cluster={"device": "NvidiaGPU"}))}])
    config = set_all(tree, values)
    assert {key: plain(OmegaConf.select(config, key)) for key in values} == values
    served = config.reward.reward_model
    assert (served.enable, served.enable_resource_pool, served.model_path) == (True, False, "/rm")
    assert (served.rollout.name, served.rollout.tensor_model_parallel_size) == (engine.lower(), 2)
    assert served.rollout.prompt_length + served.rollout.response_length == served.rollout.max_model_len
    assert all(managed_reason(key) for key in values)


def test_no_reward_model_is_served_where_none_is_in_an_engine(tree: DictConfig) -> None:
    terms = [{"name": "r", "rule": {"type": "GSM8K"}}, {"name": "m", "model": {"path": "/m", "engine": "Transformers"}}]
    assert engine_values(terms) == {"reward.reward_model.enable": False}
    assert set_all(tree, engine_values(terms)).reward.reward_model.enable is False


def test_the_rewards_are_ours_whatever_the_data_source(tree: DictConfig) -> None:
    manager = {"reward.reward_manager.source": "importlib", "reward.reward_manager.name": "JobRewardManager"}
    assert all(managed_reason(key) for key in manager)
    assert set_all(tree, manager).reward.reward_manager.name == "JobRewardManager"
