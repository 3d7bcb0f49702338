# mypy: disable-error-code="import, misc, no-untyped-call, untyped-decorator, attr-defined, union-attr, arg-type"
"""verl's two ends of the server in `hf_server`: the replica (driver) and the adapter (in each worker)."""

import os
from typing import Any

import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica
from verl.workers.rollout.utils import ensure_async_iterator

NAME = "hf_cpu"
"""Value of `actor_rollout_ref.rollout.name`."""


def _server_name(replica: int, suffix: str = "") -> str:
    return f"ppojob_hf_server_{replica}{suffix}"


class HFReplica(RolloutReplica):
    """Starts one server. Its actor is of the job, so it ends with the job."""

    async def launch_servers(self) -> None:
        from ppojob_trainer.plugin.hf_server import HFServer  # noqa: PLC0415 - imports transformers

        options = {
            "name": _server_name(self.replica_rank, self.name_suffix),
            "num_cpus": 0,
            "max_concurrency": self.max_concurrency,
        }
        server = (
            ray.remote(HFServer)
            .options(**options)
            .remote(self.config, self.model_config, self.config.seed + self.replica_rank)
        )
        self.servers = [server]
        self._server_handle = server
        self._server_address = await server.address.remote()


class HFServerAdapter(BaseRollout):
    """Lives in the actor's worker and hands its weights to the replica's server."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1, **_: Any) -> None:
        super().__init__(config, model_config, device_mesh)
        rank = int(os.environ["RANK"])
        size = self.config.tensor_model_parallel_size * self.config.data_parallel_size
        self._replica = rank // size if replica_rank == -1 else replica_rank
        self._leads = rank % size == 0

    async def resume(self, tags: list[str]) -> None:
        """Nothing was released."""

    async def release(self) -> None: ...

    @torch.no_grad()
    async def update_weights(
        self, weights: Any, wire_format: str = "named_tensors", global_steps: int | None = None, **_: Any
    ) -> None:
        """Collects on every rank (gathering a shard is collective), sends from the leading one."""
        if wire_format != "named_tensors":
            raise NotImplementedError(f"weights as {wire_format}")
        collected = []
        async for name, weight in ensure_async_iterator(weights):
            if self._leads:
                collected.append((name, weight.detach().float().cpu().numpy().copy()))
        if self._leads:
            server = ray.get_actor(_server_name(self._replica))
            await server.load_weights.remote(collected, global_steps)
