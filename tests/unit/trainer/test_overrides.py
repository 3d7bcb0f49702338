from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.trainer.builders import attempt_config, resume_from

from ppojob_contract.managed import MANAGED_PREFIXES, managed_reason
from ppojob_trainer import configuration
from ppojob_trainer.errors import ConfigError
from ppojob_trainer.overrides import check_known, flatten, merged
from ppojob_trainer.platform_defaults import platform_defaults

TREE = {
    "actor": {"lr": 1e-6, "model": {"override_config": {}}, "engine": {"_target_": "m.Engine", "dtype": "x"}},
    "steps": None,
}


def fields(target: str) -> frozenset[str] | None:
    return frozenset({"mixed_precision"}) if target == "m.Engine" else None


@pytest.mark.parametrize(
    "key",
    [
        "actor.lr",
        "steps",
        "actor.model.override_config.attn",
        "actor.engine.mixed_precision.dtype",
        "actor.engine.dtype",
    ],
)
def test_known_keys(key: str) -> None:
    check_known(TREE, [key], fields)


@pytest.mark.parametrize("key", ["actor.rate", "act", "actor.lr.x", "actor.engine.nothing", "actor.model.other.x"])
def test_an_unknown_key_is_named(key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        check_known(TREE, [key], fields)


def test_what_the_job_says_wins_over_the_platform() -> None:
    result = merged({"a": 1, "b.c": 2, "b.d": 3, "e.f": 4}, {"a": 5, "b": {"c": 6}, "e": {}}, {"trainer.nnodes": 1})
    assert result == {"a": 5, "b.c": 6, "b.d": 3, "e": {}, "trainer.nnodes": 1}


@pytest.mark.parametrize(
    "value", ["${oc.env:HOME}", ["a", "${x}"], {"k": "${x}"}, {"${x}": 1}], ids=["text", "list", "map", "map key"]
)
def test_interpolations_are_refused(value: object) -> None:
    with pytest.raises(ConfigError, match=r"data\.x"):
        merged({}, {"data.x": value}, {})


@pytest.mark.parametrize("key", sorted(MANAGED_PREFIXES))
def test_managed_keys_are_refused_by_name(key: str) -> None:
    for variant in (key, f"{key}.below"):
        with pytest.raises(ConfigError, match=variant):
            merged({}, {variant: 1}, {})


def test_a_map_above_a_managed_key_is_refused() -> None:
    assert managed_reason("trainer") is not None
    with pytest.raises(ConfigError, match=r"trainer\.resume_mode"):
        merged({}, {"trainer": {"resume_mode": "auto"}}, {})
    assert managed_reason("trainer.save_freq") is None
    assert managed_reason("trainer.v1.sampler.sync_refill_failed_groups") is None


def test_managed_values_are_managed(tmp_path: Path) -> None:
    values = configuration.managed_values(attempt_config(tmp_path), "cpu")
    assert [key for key in values if managed_reason(key) is None] == []


def test_resuming(tmp_path: Path) -> None:
    fresh = configuration.managed_values(attempt_config(tmp_path), "cpu")
    assert (fresh["trainer.resume_mode"], fresh["trainer.resume_from_path"]) == ("disable", None)
    config = attempt_config(tmp_path, attempt=3, resume=resume_from(2, 40))
    again = configuration.managed_values(config, "nvidia")
    assert again["trainer.resume_mode"] == "resume_path"
    assert again["trainer.resume_from_path"] == f"{tmp_path}/attempts/0002/checkpoints/global_step_40"
    assert again["trainer.default_local_dir"] == f"{tmp_path}/attempts/0003/checkpoints"
    assert again["trainer.device"] == "cuda"


def test_platforms() -> None:
    cpu = platform_defaults("cpu", flash_attention=False)
    assert cpu["actor_rollout_ref.rollout.name"] == "hf_cpu"
    bare = platform_defaults("nvidia", flash_attention=False)
    assert bare["actor_rollout_ref.model.use_fused_kernels"] is True
    assert "actor_rollout_ref.model.use_fused_kernels" not in platform_defaults("nvidia", flash_attention=True)


def test_a_reward_model_is_loaded_once_on_any_platform(tmp_path: Path) -> None:
    def workers(**model: Any) -> object:
        terms = [{"name": "liked", "model": {"path": "/m", "maxLength": 64, **model}}]
        return configuration.effective(attempt_config(tmp_path, reward_terms=terms), "nvidia").get("reward.num_workers")

    assert workers(engine="Transformers") == 1
    assert workers(engine="VLLM") is None, "verl's own"


def test_two_reward_models_cannot_be_served(tmp_path: Path) -> None:
    model = {"path": "/m", "engine": "VLLM", "maxLength": 64}
    terms = [{"name": "one", "model": model}, {"name": "two", "model": model}]
    with pytest.raises(ConfigError, match="one, two: verl serves one"):
        configuration.effective(attempt_config(tmp_path, reward_terms=terms), "nvidia")


def test_effective_configuration_has_all_layers(tmp_path: Path) -> None:
    keys = configuration.effective(attempt_config(tmp_path, overrides={"trainer.test_freq": 4}), "cpu")
    assert keys["trainer.test_freq"] == 4
    assert keys["data.max_response_length"] == 16
    assert keys["actor_rollout_ref.actor.strategy"] == "fsdp2"


leaves: st.SearchStrategy[object] = st.none() | st.integers() | st.text(max_size=5) | st.just({})
maps = st.dictionaries(st.sampled_from("abc"), leaves | st.dictionaries(st.sampled_from("abc"), leaves, max_size=2))


@given(maps)
def test_flat_leaves_are_never_maps_with_content(value: dict[str, object]) -> None:
    for key, leaf in flatten(value):
        assert key
        assert leaf == {} or not isinstance(leaf, dict)
