# mypy: disable-error-code="import, misc, no-untyped-call, attr-defined"
"""The actor's parameters out of verl's shards: whole, and of the type they were trained in.

verl 0.9.1 has a merger of its own (`verl/model_merger/fsdp_model_merger.py`). It rounds everything to bfloat16 and
leaves LoRA weights unmerged beside the base model, so only its knowledge of the files is used here: FSDP2 saves each
rank's part of a parameter as a DTensor, whose placement says along which dimension it was cut; what is no DTensor is
whole in every rank.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from ppojob_contract import manifest as manifests
from ppojob_trainer import origin, sealing
from ppojob_trainer.errors import CheckpointError, ConfigError

_PLAIN_MESHES = ("fsdp",), ("ddp", "fsdp")


def actor_folder(checkpoint: Path) -> Path:
    """Where the actor is in a checkpoint that has all its files. Raises CheckpointError or ConfigError."""
    if (checkpoint / "actor" / "model" / "dist_ckpt").is_dir():
        raise ConfigError(f"{checkpoint} is a checkpoint of Megatron, which cannot be merged: export FSDP checkpoints")
    if (checkpoint / manifests.NAME).exists():
        sealing.verified(checkpoint)
    else:
        origin.adopted(checkpoint, weights_only=True)
    return checkpoint / "actor"


def parameters(actor: Path, dtype: torch.dtype | None, beat: Callable[[], None]) -> dict[str, torch.Tensor]:
    """All of them, by name. The shards stay on disk until a parameter is put together."""
    size = _world_size(actor)
    first = _load(actor, size, 0)
    replica = _ranks_of_one_replica(first, size, actor)
    ranks = [first, *(_load(actor, size, rank) for rank in range(1, replica))]
    whole = {}
    for name in list(first):
        whole[name] = _joined([rank.pop(name) for rank in ranks], name, dtype)
        beat()
    return whole


def lora(actor: Path) -> Mapping[str, Any] | None:
    """Verl's note of rank and alpha; None where the whole model was trained."""
    path = actor / "lora_train_meta.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def _world_size(actor: Path) -> int:
    return int(json.loads((actor / "fsdp_config.json").read_text(encoding="utf-8"))["world_size"])


def _load(actor: Path, size: int, rank: int) -> dict[str, Any]:
    path = actor / f"model_world_size_{size}_rank_{rank}.pt"
    loaded: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=False, mmap=True)
    return loaded


def _ranks_of_one_replica(state: Mapping[str, Any], size: int, actor: Path) -> int:
    """With HSDP the ranks behind the first replica hold the same again."""
    mesh = next((tensor.device_mesh for tensor in state.values() if isinstance(tensor, DTensor)), None)
    if mesh is None and size > 1:
        message = f"checkpoint {actor.parent}: {size} ranks and no DTensor; strategy fsdp2 saves what can be merged"
        raise CheckpointError(message, str(actor.parent))
    if mesh is None:
        return 1
    if mesh.mesh_dim_names not in _PLAIN_MESHES:
        message = f"checkpoint {actor.parent}: cut along {mesh.mesh_dim_names}, which cannot be merged"
        raise CheckpointError(message, str(actor.parent))
    return int(mesh.mesh.shape[-1])


def _joined(parts: list[Any], name: str, dtype: torch.dtype | None) -> torch.Tensor:
    first = parts[0]
    if not isinstance(first, DTensor):
        tensor = first
    elif (placement := first.placements[-1]).is_shard():
        tensor = torch.cat([part.to_local() for part in parts], dim=placement.dim)
    elif placement.is_replicate():
        tensor = first.to_local()
    else:
        raise ValueError(f"{name} is placed as {placement}, which nobody saves")
    if isinstance(first, DTensor) and tensor.shape != first.shape:
        raise ValueError(f"{name} has {tuple(tensor.shape)} of {tuple(first.shape)} values: a shard is missing")
    return tensor.to(dtype) if dtype is not None and tensor.is_floating_point() else tensor.clone()
