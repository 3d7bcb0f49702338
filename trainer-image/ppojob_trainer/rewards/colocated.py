# mypy: disable-error-code="import, misc, no-untyped-call, attr-defined, union-attr, arg-type"
"""Scoring after generation, where the reward model's engine shares the devices with the policy's.

verl's `_compute_reward_colocate` (`trainer/ppo/v1/trainer_base.py`) hands on the conversation alone, for a reward that
is a model and nothing else. Here the row goes with it, and what the terms said comes back into the samples.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import transfer_queue as tq
from tensordict import TensorDict
from verl.protocol import DataProto
from verl.utils import tensordict_utils as tu

_TOKENS = ("prompts", "responses")
_ROW = ("raw_prompt", "data_source", "reward_model", "extra_info")


def score(batch: Any, padding: int, compute: Callable[[Any], Any]) -> Any:
    """Puts `rm_scores` and the terms' own scores to the samples of `batch`; `compute` is verl's reward loop."""
    fields = [*_TOKENS, *_ROW, "extra_fields"]
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
    lengths = {name: data[name].offsets().diff() for name in _TOKENS}
    tokens = {name: data[name].to_padded_tensor(padding=padding) for name in _TOKENS}
    mask = torch.cat([_mask(lengths[name], tokens[name].size(1)) for name in _TOKENS], dim=1)
    scored = compute(
        DataProto(
            batch=TensorDict({**tokens, "attention_mask": mask}, batch_size=len(batch)),
            non_tensor_batch={name: _objects(data[name]) for name in _ROW if name in data},
        )
    )
    infos = scored.non_tensor_batch
    extras = [
        {
            **(extra if isinstance(extra, Mapping) else {}),
            "reward_extra_info": {key: _plain(values[number]) for key, values in infos.items()},
        }
        for number, extra in enumerate(data["extra_fields"])
    ]
    scores = scored.batch["rm_scores"]
    rows = [scores[number, :length] for number, length in enumerate(lengths["responses"])]
    written = {
        "rm_scores": torch.nested.as_nested_tensor(rows, layout=torch.jagged),
        "extra_fields": extras,
    }
    tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=tu.get_tensordict(written))
    return batch


def _mask(lengths: torch.Tensor, width: int) -> torch.Tensor:
    return (torch.arange(width).unsqueeze(0) < lengths.unsqueeze(1)).to(torch.int64)


def _objects(values: Any) -> np.ndarray[Any, Any]:
    array = np.empty(len(values), dtype=object)
    array[:] = list(values)
    return array


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
