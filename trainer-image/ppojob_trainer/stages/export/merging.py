# mypy: disable-error-code="import, misc, no-untyped-call, attr-defined"
"""A checkpoint of verl's as a model of transformers: the whole of it, or its LoRA adapter alone."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from ppojob_trainer import sealing
from ppojob_trainer.errors import ConfigError
from ppojob_trainer.stages.export import shards

_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
_ADAPTER = re.compile(r"\.lora_[AB]\.|\.lora_embedding_[AB]\.|\.lora_magnitude_vector\.")


@dataclass(frozen=True, slots=True)
class Merged:
    """What was written."""

    parameters: int
    dtype: str


def merge(
    checkpoint: Path,
    model: str,
    target: Path,
    *,
    trust_remote_code: bool,
    dtype: str | None,
    beat: Callable[[], None] = lambda: None,
) -> Merged:
    """Writes the actor of `checkpoint` (a `global_step_N`) into the folder `target`, LoRA merged.

    `model` is what it was trained from: for what the checkpoint does not carry. With no `dtype` the weights are
    those of the actor, bit by bit. Raises CheckpointError for a checkpoint that cannot be loaded.
    """
    actor = shards.actor_folder(checkpoint)
    with sealing.loading(checkpoint):
        trained, _ = _trained(actor, model, trust_remote_code, dtype, beat)
    if hasattr(trained, "merge_and_unload"):
        trained = trained.merge_and_unload()
    return _save(trained, actor, model, target, trust_remote_code)


def adapter(
    checkpoint: Path,
    model: str,
    target: Path,
    *,
    trust_remote_code: bool,
    dtype: str | None,
    beat: Callable[[], None] = lambda: None,
) -> Merged:
    """Writes the LoRA adapter alone, for `model`. Raises ConfigError where the whole model was trained."""
    actor = shards.actor_folder(checkpoint)
    with sealing.loading(checkpoint):
        trained, adapted = _trained(actor, model, trust_remote_code, dtype, beat)
    if not adapted:
        raise ConfigError(f"{checkpoint} has no LoRA adapter: export it as Merged")
    merged = _save(trained, actor, model, target, trust_remote_code)
    return Merged(parameters=adapted, dtype=merged.dtype)


def _trained(
    actor: Path, model: str, trust_remote_code: bool, dtype: str | None, beat: Callable[[], None]
) -> tuple[Any, int]:
    """The model with its trained weights, and how many of them are an adapter's."""
    state = shards.parameters(actor, None if dtype is None else _DTYPES[dtype], beat)
    note = shards.lora(actor)
    adapted = {name: tensor for name, tensor in state.items() if _ADAPTER.search(name)}
    base = {_base_name(name): tensor for name, tensor in state.items() if name not in adapted}
    config = AutoConfig.from_pretrained(_source(actor, "config.json", model), trust_remote_code=trust_remote_code)
    if base:
        with torch.device("meta"):
            found = AutoModelForCausalLM.from_config(config, trust_remote_code=trust_remote_code)
        found.load_state_dict(base, assign=True, strict=True)
    else:  # verl's save_lora_only
        found = AutoModelForCausalLM.from_pretrained(model, dtype="auto", trust_remote_code=trust_remote_code)
    found.tie_weights()
    found.config.dtype = next(found.parameters()).dtype
    if not adapted:
        return found, 0
    return _with_adapter(found, adapted, note or {}, model), sum(tensor.numel() for tensor in adapted.values())


def _with_adapter(base: Any, adapted: dict[str, torch.Tensor], note: Any, model: str) -> Any:
    from peft import LoraConfig, get_peft_model  # noqa: PLC0415 - most models have no adapter

    if not note.get("r") or not note.get("lora_alpha"):
        raise ConfigError("lora_train_meta.json, verl's note of LoRA's rank and alpha, is missing in the checkpoint")
    modules = sorted({name.split(".lora_")[0].rsplit(".", 1)[-1] for name in adapted})
    config = LoraConfig(
        r=int(note["r"]), lora_alpha=int(note["lora_alpha"]), target_modules=modules, task_type="CAUSAL_LM"
    )
    wrapped = get_peft_model(base, config, autocast_adapter_dtype=False)
    wrapped.peft_config["default"].base_model_name_or_path = model
    result = wrapped.load_state_dict(adapted, assign=True, strict=False)
    if result.unexpected_keys:
        raise ValueError(f"the adapter has parameters that the model has no place for: {result.unexpected_keys[:3]}")
    return wrapped


def _base_name(name: str) -> str:
    return name.removeprefix("base_model.model.").replace(".base_layer.", ".")


def _source(actor: Path, file: str, model: str) -> str:
    """Verl puts configuration and tokenizer beside the shards."""
    there = actor / "huggingface"
    return str(there) if (there / file).exists() else model


def _save(trained: Any, actor: Path, model: str, target: Path, trust_remote_code: bool) -> Merged:
    generation = _source(actor, "generation_config.json", model)
    try:
        trained.generation_config = GenerationConfig.from_pretrained(generation)
    except OSError:  # a model without one
        trained.generation_config = GenerationConfig.from_model_config(trained.config)
    trained.save_pretrained(target)
    tokenizer = _source(actor, "tokenizer_config.json", model)
    AutoTokenizer.from_pretrained(tokenizer, trust_remote_code=trust_remote_code).save_pretrained(target)
    dtype = str(next(trained.parameters()).dtype).removeprefix("torch.")
    return Merged(parameters=sum(parameter.numel() for parameter in trained.parameters()), dtype=dtype)
