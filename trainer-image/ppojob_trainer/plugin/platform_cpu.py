# mypy: disable-error-code="import, misc, no-untyped-call, untyped-decorator, attr-defined, union-attr, arg-type"
"""A processor as verl's platform (verl `plugin/platform/platform_base.py`). Device arguments are ignored: there is one.

Ray counts devices as logical `GPU`s here too, because verl's own check of free resources knows no other name.
"""

import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry


def _nothing(*_: Any, **__: Any) -> None:
    """Stands for a call that has no meaning on a processor."""


def _device_module() -> types.ModuleType:
    """`torch.cpu` with those functions of `torch.cuda` that verl calls without asking."""
    module = types.ModuleType("ppojob_trainer.plugin.torch_cpu")
    vars(module).update({name: value for name, value in vars(torch.cpu).items() if not name.startswith("__")})
    process = psutil.Process()

    def resident(*_: Any, **__: Any) -> int:
        return int(process.memory_info().rss)

    def memory(*_: Any, **__: Any) -> tuple[int, int]:
        machine = psutil.virtual_memory()
        return int(machine.available), int(machine.total)

    def properties(*_: Any, **__: Any) -> types.SimpleNamespace:
        return types.SimpleNamespace(name="cpu", total_memory=memory()[1])

    vars(module).update(
        is_available=lambda: True,
        device_count=lambda: 1,
        current_device=lambda: "cpu",
        get_device_name=lambda *_, **__: "cpu",
        get_device_properties=properties,
        is_bf16_supported=lambda *_, **__: True,
        mem_get_info=memory,
        get_rng_state=torch.get_rng_state,
        set_rng_state=torch.set_rng_state,
        manual_seed=torch.manual_seed,
        manual_seed_all=torch.manual_seed,
    )
    for name in ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved"):
        setattr(module, name, resident)
    for name in (
        "set_device",
        "synchronize",
        "empty_cache",
        "ipc_collect",
        "reset_peak_memory_stats",
        "set_per_process_memory_fraction",
    ):
        setattr(module, name, _nothing)
    return module


_MODULE = _device_module()


@PlatformRegistry.register(platform="cpu")
class PlatformCPU(PlatformBase):
    """No accelerator: gloo for communication, weights through shared memory."""

    @property
    def device_name(self) -> str:
        return "cpu"

    @property
    def vendor_name(self) -> str:
        return "cpu"

    @property
    def device_module(self) -> types.ModuleType:
        return _MODULE

    def is_available(self) -> bool:
        return True

    def current_device(self) -> torch.device:
        """A device, not an index: verl passes it to `.to()` and to FSDP, which take an index for a GPU."""
        return torch.device("cpu")

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        _nothing(device_index)

    def synchronize(self, device_index: int | None = None) -> None:
        _nothing(device_index)

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        _nothing(settings)

    def empty_cache(self) -> None:
        _nothing()

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        _nothing(device_index)
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        _nothing(msg)
        yield

    def profiler_start(self) -> None:
        _nothing()

    def profiler_stop(self) -> None:
        _nothing()

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> Any:
        return None
