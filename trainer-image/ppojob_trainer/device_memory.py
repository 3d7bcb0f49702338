"""Device memory of a worker process, by the role that was at work: actor, reference and critic share one process, so
torch's allocator cannot tell them apart, but they work one after another. Bytes; no torch in here.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

ALLOCATED, RESERVED = "MemoryAllocatedBytes", "MemoryReservedBytes"
_OTHER = "other"
"""Loads, saves, weights on their way to the engine: in the share of all, but in no figure of its own."""


class Device(Protocol):
    """What torch's device modules (`torch.cuda`) have."""

    def max_memory_allocated(self) -> int: ...
    def max_memory_reserved(self) -> int: ...
    def memory_reserved(self) -> int: ...
    def reset_peak_memory_stats(self) -> None: ...
    def mem_get_info(self) -> tuple[int, int]: ...


@dataclass(slots=True)
class DeviceMemory:
    """Peaks since they were last taken, of one process."""

    device: Device
    _peaks: dict[str, tuple[int, int]] = field(default_factory=lambda: defaultdict(lambda: (0, 0)))
    _engine: int | None = None

    def watch(self, role: str, target: Any, *calls: str) -> None:
        """From now on what these methods of `target` need counts for the role."""
        for name in calls:
            setattr(target, name, self._measured(role, getattr(target, name)))

    def note_engine(self) -> None:
        """The rollout engine is awake and has its weights: what this process does not hold of the device, it does."""
        free, total = self.device.mem_get_info()
        self._engine = max(0, total - free - self.device.memory_reserved())

    def take(self) -> dict[str, float]:
        """Figures by name. The peaks begin anew; what the engine holds stays until it is noted again."""
        self._close(_OTHER)
        peaks, self._peaks = self._peaks, defaultdict(lambda: (0, 0))
        total = self.device.mem_get_info()[1]
        found = {"deviceMemoryFraction": max(reserved for _, reserved in peaks.values()) / total}
        for role, (allocated, reserved) in peaks.items():
            if role != _OTHER:
                found |= {f"{role}{ALLOCATED}": float(allocated), f"{role}{RESERVED}": float(reserved)}
        if self._engine is not None:
            found[f"rollout{RESERVED}"] = float(self._engine)
        return found | {"deviceMemoryTotalBytes": float(total)}

    def _measured(self, role: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*args: Any, **rest: Any) -> Any:
            self._close(_OTHER)
            try:
                return call(*args, **rest)
            finally:
                self._close(role)

        return measured

    def _close(self, role: str) -> None:
        """The peaks until now are the role's."""
        allocated, reserved = self._peaks[role]
        self._peaks[role] = (
            max(allocated, self.device.max_memory_allocated()),
            max(reserved, self.device.max_memory_reserved()),
        )
        self.device.reset_peak_memory_stats()


def largest(processes: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Each figure where it is largest: the fullest device is the one that fails."""
    found: dict[str, float] = {}
    for figures in processes:
        for name, value in figures.items():
            found[name] = max(value, found.get(name, value))
    return found
