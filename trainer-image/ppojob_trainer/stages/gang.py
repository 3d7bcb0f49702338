# mypy: disable-error-code="import, misc, no-untyped-call, untyped-decorator, attr-defined"
"""One process for each device, on the job's Ray cluster, working together: what `torchrun` is on a single machine.

Ray calls a device `GPU` on every platform, as in training (`plugin/platform_cpu`).
"""

import logging
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from ppojob_trainer.errors import CommunicationError
from ppojob_trainer.stages.context import StageContext

log = logging.getLogger(__name__)

Work = Callable[[dict[str, Any]], Any]
"""What a process does; a function of a module, imported there."""

_POLL_SECONDS = 1.0
_DEVICES_TIMEOUT_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class Shape:
    """How many processes, where."""

    nodes: int
    per_node: int
    devices_each: int = 1
    distributed: bool = False
    """They meet through torch.distributed, with the environment that torchrun gives."""


class Member:
    """The Ray actor: one process with its device."""

    def rendezvous(self) -> tuple[str, int]:
        """An address at which the others can meet this one."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            return ray.util.get_node_ip_address(), int(probe.getsockname()[1])

    def run(self, work: Work, task: dict[str, Any], environment: Mapping[str, str]) -> Any:
        os.environ.update(environment)
        return work(task)


def connect(context: StageContext) -> None:
    """Joins the running cluster."""
    if ray.is_initialized():
        return
    try:
        ray.init(address="auto", log_to_driver=True)
    except ConnectionError as error:
        raise CommunicationError(f"no Ray cluster to join: {error}") from error
    context.catch_sigterm()


def run(
    work: Work, task: dict[str, Any], shape: Shape, context: StageContext, between: Callable[[], None]
) -> list[Any]:
    """`work(task)` in every process, by rank; the task says `rank` and `ranks` too.

    `between` is called every second and may raise; then all are ended. Raises what the first process that failed
    raised: the others would wait for it for ever.
    """
    connect(context)
    bundle = {"GPU": shape.per_node * shape.devices_each, "CPU": shape.per_node}
    group = placement_group([bundle] * shape.nodes, strategy="STRICT_SPREAD" if shape.nodes > 1 else "PACK")
    members: list[Any] = []
    try:
        _wait_for(group, shape, between)
        members = [_member(group, node, shape) for node in range(shape.nodes) for _ in range(shape.per_node)]
        environments = _environments(members) if shape.distributed else [{} for _ in members]
        running = [
            member.run.remote(work, {**task, "rank": rank, "ranks": len(members)}, environments[rank])
            for rank, member in enumerate(members)
        ]
        return _gathered(running, between)
    finally:
        for member in members:
            ray.kill(member)
        remove_placement_group(group)


def _wait_for(group: PlacementGroup, shape: Shape, between: Callable[[], None]) -> None:
    deadline = time.monotonic() + _DEVICES_TIMEOUT_SECONDS
    while not group.wait(_POLL_SECONDS):
        between()
        if time.monotonic() > deadline:
            raise CommunicationError(
                f"{shape.nodes} nodes with {shape.per_node * shape.devices_each} free devices were not there within "
                f"{_DEVICES_TIMEOUT_SECONDS:.0f} s; the cluster has {ray.cluster_resources()}"
            )


def _member(group: PlacementGroup, node: int, shape: Shape) -> Any:
    strategy = PlacementGroupSchedulingStrategy(placement_group=group, placement_group_bundle_index=node)
    return ray.remote(Member).options(num_gpus=shape.devices_each, num_cpus=1, scheduling_strategy=strategy).remote()


def _environments(members: Sequence[Any]) -> list[dict[str, str]]:
    """As torchrun sets them; alone, nothing. Each process sees only its own device, which is its first."""
    if len(members) == 1:
        return [{}]
    address, port = ray.get(members[0].rendezvous.remote())
    shared = {
        "WORLD_SIZE": str(len(members)),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
    }
    return [{**shared, "RANK": str(rank)} for rank in range(len(members))]


def _gathered(running: Sequence[Any], between: Callable[[], None]) -> list[Any]:
    waiting = list(running)
    while waiting:
        done, waiting = ray.wait(waiting, timeout=_POLL_SECONDS)
        ray.get(done)
        between()
    return list(ray.get(list(running)))
