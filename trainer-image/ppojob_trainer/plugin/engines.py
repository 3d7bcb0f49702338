# mypy: disable-error-code="import, misc, no-untyped-call, untyped-decorator, attr-defined, union-attr, arg-type"
"""verl's FSDP engines where its own do not start: on a processor, and critics without flash-attn.

Imported by the worker processes only (see `workers`).
"""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import verl.models.transformers.monkey_patch
import verl.utils.distributed
import verl.utils.model
import verl.workers.engine_workers
from transformers import AutoModelForTokenClassification
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead, FSDPEngineWithValueHead

_FSDP = ["fsdp", "fsdp2"]

# The image has TRL, for reward training. Where there is one, verl (`models/transformers/monkey_patch.py`) wants a class
# of it that TRL 1.16 no longer has; no critic of ours is of that class.
for _module in (verl.models.transformers.monkey_patch, verl.utils.model):
    _module.is_trl_available = lambda: False


@contextmanager
def _sdpa_value_head() -> Iterator[None]:
    """Verl `utils/model.py` `load_valuehead_model` asks for flash_attention_2, whatever the configuration says."""
    original = verl.utils.model.load_valuehead_model

    def load(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
        return AutoModelForTokenClassification.from_pretrained(
            local_path,
            config=model_config,
            torch_dtype=torch_dtype,
            attn_implementation="sdpa",
            trust_remote_code=trust_remote_code,
        )

    verl.utils.model.load_valuehead_model = load
    try:
        yield
    finally:
        verl.utils.model.load_valuehead_model = original


class SdpaValueEngine(FSDPEngineWithValueHead):
    """A critic that attends with torch's own kernels."""

    def _build_module(self) -> Any:
        with _sdpa_value_head():
            return super()._build_module()


@EngineRegistry.register(model_type="language_model", backend=_FSDP, device="cpu")
class CpuLanguageEngine(FSDPEngineWithLMHead):
    """Actor or reference on a processor."""

    def _build_fsdp_module(self, module: Any) -> Any:
        """For a reference verl offloads to pinned memory, which needs an accelerator; nothing is offloaded here."""
        reference = self.engine_config.forward_only
        object.__setattr__(self.engine_config, "forward_only", False)
        try:
            return super()._build_fsdp_module(module)
        finally:
            object.__setattr__(self.engine_config, "forward_only", reference)


@EngineRegistry.register(model_type="value_model", backend=_FSDP, device="cpu")
class CpuValueEngine(SdpaValueEngine):
    """Critic on a processor."""


if importlib.util.find_spec("flash_attn") is None:
    # The vendor's key is looked up before the plain "cuda", which verl has taken.
    EngineRegistry.register(model_type="value_model", backend=_FSDP, device="cuda", vendor="nvidia")(SdpaValueEngine)


def use_gloo_alone() -> None:
    """Verl joins "cpu:gloo,<device>:<backend>", in which torch refuses the device `cpu` named twice."""
    original = verl.utils.distributed.initialize_global_process_group_ray

    def initialize(timeout_second: float | None = None, backend: str | None = None) -> None:
        original(timeout_second=timeout_second, backend=backend or "cpu:gloo")

    verl.utils.distributed.initialize_global_process_group_ray = initialize
    verl.workers.engine_workers.initialize_global_process_group_ray = initialize
