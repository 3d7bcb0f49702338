"""verl's configuration for a reward model that it is to serve on the devices (verl `config/reward/reward.yaml`)."""

from collections.abc import Mapping, Sequence
from typing import Any

from ppojob_trainer.errors import ConfigError
from ppojob_trainer.rewards.models import in_engine

_NAMES = {"VLLM": "vllm", "SGLang": "sglang"}
_MODEL = "reward.reward_model"


def engine_values(terms: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Keys below `reward.reward_model`. Raises ConfigError for two models: verl serves one.

    It shares the devices with actor and rollout, which sleep while it scores; verl then scores after generation.
    """
    served = [term for term in terms if isinstance(term.get("model"), Mapping) and in_engine(term["model"])]
    if len(served) > 1:
        names = ", ".join(str(term["name"]) for term in served)
        raise ConfigError(f"reward terms {names}: verl serves one reward model; give all but one engine Transformers")
    if not served:
        return {f"{_MODEL}.enable": False}
    model = served[0]["model"]
    length = int(model["maxLength"])
    rollout = {
        "name": _NAMES[model["engine"]],
        "tensor_model_parallel_size": int(model.get("tensorParallelSize", 1)),
        "gpu_memory_utilization": float(model.get("memoryFraction", 0.3)),
        "max_model_len": length,
        "max_num_batched_tokens": max(8192, length),
        "prompt_length": length - 1,  # the sum of the two is to be what the model may read
        "response_length": 1,
    }
    return {
        f"{_MODEL}.enable": True,
        f"{_MODEL}.enable_resource_pool": False,
        f"{_MODEL}.model_path": str(model["path"]),
        **{f"{_MODEL}.rollout.{key}": value for key, value in rollout.items()},
    }
