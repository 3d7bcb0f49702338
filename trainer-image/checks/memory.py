"""Memory by role on a real device, without verl: `python checks/memory.py`, seconds. Needs torch and one GPU.

Two models take turns in this process, as actor and critic do, beside a process that holds memory as an engine does.
Prints the figures; the last line says that they are what was held.
"""

import json
import subprocess
import sys

import torch

from ppojob_trainer.device_memory import DeviceMemory

MIB = 2**20
ENGINE = "import torch; kept = torch.empty(3 << 30, dtype=torch.uint8, device='cuda'); print(1, flush=True); input()"
CONTEXT = 1024 * MIB
"""More than what CUDA keeps for each process besides its tensors."""


class Engine:
    """Weights that stay, and activations for the time of a call."""

    def __init__(self, weights: int, activations: int) -> None:
        self.weights, self.activations = held(weights), activations

    def train_batch(self) -> int:
        return held(self.activations).numel()


def held(mib: int) -> torch.Tensor:
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


def main() -> None:
    memory = DeviceMemory(torch.cuda)
    actor, critic = Engine(1024, 4096), Engine(512, 2048)
    memory.watch("actor", actor, "train_batch")
    memory.watch("critic", critic, "train_batch")
    memory.take()
    critic.train_batch()
    actor.train_batch()
    with subprocess.Popen([sys.executable, "-c", ENGINE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as engine:
        assert engine.stdout
        engine.stdout.readline()
        memory.note_engine()
        engine.communicate(b"\n")
    found = memory.take()
    print(json.dumps(found))
    weights = (1024 + 512) * MIB
    assert found["criticMemoryAllocatedBytes"] == weights + 2048 * MIB
    assert found["actorMemoryAllocatedBytes"] == weights + 4096 * MIB
    assert found["actorMemoryReservedBytes"] >= weights + 4096 * MIB
    assert 3072 * MIB <= found["rolloutMemoryReservedBytes"] < 3072 * MIB + 2 * CONTEXT
    total = torch.cuda.mem_get_info()[1]
    assert found["deviceMemoryTotalBytes"] == total
    assert found["deviceMemoryFraction"] == found["actorMemoryReservedBytes"] / total
    torch.cuda.empty_cache()
    critic.train_batch()
    again = memory.take()
    assert "actorMemoryAllocatedBytes" not in again
    assert again["criticMemoryReservedBytes"] < found["actorMemoryReservedBytes"]
    print(json.dumps({"what": "memory", "as_held": True}))


if __name__ == "__main__":
    main()
