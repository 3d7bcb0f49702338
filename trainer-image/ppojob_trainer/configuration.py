# mypy: disable-error-code="import, misc, no-untyped-call, untyped-decorator, attr-defined, union-attr, arg-type"
"""verl's configuration for one attempt: verl's own defaults, then ours for the platform, then the job's, then what
only the trainer may set.
"""

import dataclasses
import functools
import importlib
import importlib.metadata
import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ppojob_contract import names
from ppojob_contract.attempt import AttemptConfig
from ppojob_contract.layout import JobLayout
from ppojob_trainer import origin
from ppojob_trainer.errors import ConfigError
from ppojob_trainer.overrides import check_known, merged
from ppojob_trainer.platform_defaults import job_defaults, platform_defaults
from ppojob_trainer.rewards.engine import engine_values
from ppojob_trainer.rewards.terms import encode

VERL_VERSION = "0.9.1"
"""The trainer overrides methods of verl, so only this one is known to work."""

NO_END = 1_000_000
"""Epochs: verl also ends after these, without a last save; the steps end training."""

PLUGIN = "ppojob_trainer.plugin"


def check_verl() -> None:
    """Raises ConfigError unless the supported verl is installed."""
    try:
        found = importlib.metadata.version("verl")
    except importlib.metadata.PackageNotFoundError as error:
        raise ConfigError("verl is not installed in this image") from error
    if found != VERL_VERSION:
        raise ConfigError(f"verl {found} is installed; this trainer supports {VERL_VERSION} only")


def platform() -> str:
    """Verl's name of the platform. The image says it: a head pod of a GPU job need not have a GPU."""
    named = os.environ.get(names.ENV_PLATFORM, "").strip().lower()
    if named:
        return named
    import torch  # noqa: PLC0415 - only where the image says nothing

    return "nvidia" if torch.cuda.is_available() else "cpu"


def effective(attempt: AttemptConfig, platform_name: str) -> dict[str, Any]:
    """Every key that is set, flat. Raises ConfigError for what the job may not set."""
    flash_attention = importlib.util.find_spec("flash_attn") is not None
    defaults = job_defaults(attempt) | platform_defaults(platform_name, flash_attention=flash_attention)
    return merged(defaults, attempt.overrides, managed_values(attempt, platform_name))


def managed_values(attempt: AttemptConfig, platform_name: str) -> dict[str, Any]:
    """Values of the keys in `ppojob_contract.managed`."""
    job = JobLayout(Path(attempt.root))
    source = origin.folder_of(attempt)
    values: dict[str, Any] = {
        "trainer.v1.trainer_mode": "ppojob",
        "trainer.v1.sampler.custom_sampler.path": None,
        "trainer.v1.sampler.custom_sampler.name": None,
        "trainer.use_v1": True,
        "trainer.device": {"nvidia": "cuda"}.get(platform_name, platform_name),
        "trainer.nnodes": attempt.nodes,
        "trainer.n_gpus_per_node": attempt.devices_per_node,
        "trainer.total_epochs": NO_END,
        "trainer.total_training_steps": attempt.total_steps,
        "trainer.default_local_dir": str(job.attempt(attempt.attempt).checkpoints),
        "trainer.default_hdfs_dir": None,
        "trainer.max_actor_ckpt_to_keep": None,
        "trainer.max_critic_ckpt_to_keep": None,
        "trainer.del_local_ckpt_after_load": False,
        "trainer.checkpoint_callback_class": None,
        "trainer.resume_mode": "resume_path" if source else "disable",
        "trainer.resume_from_path": str(source) if source else None,
        "trainer.logger": ["console"],
        "trainer.rollout_data_dir": None,
        "trainer.validation_data_dir": None,
        "trainer.project_name": attempt.namespace,
        "trainer.experiment_name": f"{attempt.name}-a{attempt.attempt}",
        "actor_rollout_ref.actor.checkpoint.async_save": False,
        "critic.checkpoint.async_save": False,
        "transfer_queue.enable": True,
        "reward.reward_manager.source": "importlib",
        "reward.reward_manager.name": "JobRewardManager",
        "reward.reward_manager.module.path": "pkg://ppojob_trainer.rewards.manager",
        "reward.custom_reward_function.path": "pkg://ppojob_trainer.rewards.manager",
        "reward.custom_reward_function.name": "compute_score",
        "reward.custom_reward_function.reward_kwargs": {"terms": encode(attempt.reward_terms)},
        **engine_values(attempt.reward_terms),
    }
    return values


def compose(keys: Mapping[str, Any], attempt: AttemptConfig) -> Any:
    """Verl's configuration (an omegaconf.DictConfig) with `keys` set. Raises ConfigError for a key verl lacks."""
    import hydra  # noqa: PLC0415 - seconds of imports that the checks before must not pay
    from omegaconf import OmegaConf, open_dict  # noqa: PLC0415

    with hydra.initialize_config_module("verl.trainer.config", version_base=None):
        config = hydra.compose("ppo_trainer")
    tree = OmegaConf.to_container(config, resolve=False)
    given = merged({}, attempt.overrides, {})
    check_known(tree, list(given), class_fields)
    with open_dict(config):
        for key, value in keys.items():
            try:
                OmegaConf.update(config, key, value, merge=False, force_add=True)
            except Exception as error:
                raise ConfigError(f"override {key} cannot be set: {error}") from error
    return config


@functools.cache
def class_fields(target: str) -> frozenset[str] | None:
    """Fields of the dataclass that a `_target_` of verl's configuration names."""
    module_name, _, name = target.rpartition(".")
    cls = getattr(importlib.import_module(module_name), name, None)
    if cls is None or not dataclasses.is_dataclass(cls):
        return None
    return frozenset(item.name for item in dataclasses.fields(cls))
