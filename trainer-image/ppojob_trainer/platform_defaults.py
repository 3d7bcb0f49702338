"""Values of verl's keys that suit a platform where the job says nothing; what the job says wins.

CPU: verl's own defaults want flash-attn, bf16 and torch.compile; none of them helps without an accelerator, and the
worker counts are for machines with many cores. CUDA without flash-attn: sdpa, no packing, and fused kernels, because
verl's fallback computes log-probabilities in a Python loop over tokens (3 to 5 times slower, 40 GB more at 0.5 B).
"""

from collections.abc import Mapping
from typing import Any

from ppojob_contract.attempt import AttemptConfig
from ppojob_trainer.rewards.models import in_engine

_ACTOR, _REF, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.ref", "actor_rollout_ref.rollout"
_MODELS = ("actor_rollout_ref.model", "critic.model")
_ENGINES = (f"{_ACTOR}.fsdp_config", f"{_REF}.fsdp_config", "critic.fsdp")
_STRATEGIES = (f"{_ACTOR}.strategy", f"{_REF}.strategy", "critic.strategy")


def platform_defaults(platform: str, *, flash_attention: bool) -> dict[str, Any]:
    """`platform` is verl's name for it: `cpu`, `nvidia`, …; `flash_attention`: whether the package is installed."""
    if platform == "cpu":
        return _cpu()
    if platform == "nvidia":
        return _common_accelerator() if flash_attention else _common_accelerator() | _without_flash_attention()
    return _common_accelerator()


def job_defaults(attempt: AttemptConfig) -> dict[str, Any]:
    """Defaults of every platform, some of them from the attempt itself."""
    in_process = any(
        isinstance(term.get("model"), Mapping) and not in_engine(term["model"]) for term in attempt.reward_terms
    )
    return {
        # Each reward worker would load the model.
        **({"reward.num_workers": 1} if in_process else {}),
        "data.max_response_length": attempt.max_response_length,
        "data.filter_overlong_prompts": True,
        "data.custom_cls.path": "pkg://ppojob_trainer.rows",
        "data.custom_cls.name": "NumberedRows",
        "trainer.val_before_train": False,
        "trainer.test_freq": -1,
        f"{_ROLLOUT}.tensor_model_parallel_size": 1,
        f"{_ROLLOUT}.calculate_log_probs": True,
    }


def _cpu() -> dict[str, Any]:
    return {
        "data.dataloader_num_workers": 0,
        f"{_ACTOR}.use_torch_compile": False,
        "actor_rollout_ref.model.lora.merge": True,  # hf_cpu takes whole weights only
        f"{_ROLLOUT}.name": "hf_cpu",
        f"{_ROLLOUT}.dtype": "float32",
        f"{_ROLLOUT}.free_cache_engine": False,
        f"{_ROLLOUT}.max_num_seqs": 64,
        f"{_ROLLOUT}.agent.num_workers": 1,
        f"{_ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes": 16,
        "reward.num_workers": 1,
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
        **dict.fromkeys(_STRATEGIES, "fsdp2"),
        **_sdpa(),
        **{f"{model}.enable_gradient_checkpointing": False for model in _MODELS},
        **{f"{engine}.use_torch_compile": False for engine in _ENGINES},
        **{f"{engine}.model_dtype": "fp32" for engine in _ENGINES},
        **{f"{engine}.mixed_precision.param_dtype": "fp32" for engine in _ENGINES},
        **{f"{engine}.mixed_precision.reduce_dtype": "fp32" for engine in _ENGINES},
    }


def _common_accelerator() -> dict[str, Any]:
    return {f"{_ROLLOUT}.name": "vllm", **dict.fromkeys(_STRATEGIES, "fsdp2")}


def _without_flash_attention() -> dict[str, Any]:
    return {
        **_sdpa(),
        "actor_rollout_ref.model.use_fused_kernels": True,
        "actor_rollout_ref.model.fused_kernel_options.impl_backend": "torch",
    }


def _sdpa() -> dict[str, Any]:
    return {
        **{f"{model}.override_config.attn_implementation": "sdpa" for model in _MODELS},
        **{f"{model}.use_remove_padding": False for model in _MODELS},
    }
