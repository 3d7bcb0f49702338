"""What `kubectl` tells of a job that waits or ends: message, conditions, events."""

import dataclasses
from typing import Any

import pytest
from tests.support.builders import raw_spec
from tests.support.drive import Drive
from tests.support.scripts import healthy
from tests.support.world import FakeCluster, FakeClusterPort, World
from tests.unit.controller.test_faults import at_step, with_cluster
from tests.unit.controller.test_story import conditions, reasons

from ppojob_contract.mailbox import Command, CommandKind, prestop_id
from ppojob_operator.domain.observation import RayClusterView, Trouble


class Troubled(FakeClusterPort):
    """The head's trouble in each second of its first ones, as a pod tells it."""

    told: tuple[tuple[Trouble | None, str], ...] = ()

    def _view(self, cluster: FakeCluster) -> RayClusterView:
        view = super()._view(cluster)
        if view.head is None or cluster.age >= len(self.told):
            return view
        trouble, message = self.told[cluster.age]
        return dataclasses.replace(
            view, head=dataclasses.replace(view.head, ready=False, trouble=trouble, message=message)
        )


BACK_OFF = (Trouble.IMAGE_NOT_PULLED, "container ray: ImagePullBackOff")
FAILED_PULL = (Trouble.IMAGE_NOT_PULLED, "container ray: ErrImagePull: no such host")
FULL = (Trouble.UNSCHEDULABLE, "not scheduled: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu")
FULLER = (Trouble.UNSCHEDULABLE, "not scheduled: 0/4 nodes are available: 4 Insufficient nvidia.com/gpu")
FINE = (None, "")


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ((FAILED_PULL, BACK_OFF, FAILED_PULL, BACK_OFF) * 5, ["ImageNotPulled"]),
        ((FINE, FULL, FULLER, FULL, FINE, FINE), ["Unschedulable"]),
        ((FULL, FULL, BACK_OFF, BACK_OFF), ["Unschedulable", "ImageNotPulled"]),
        ((FINE,) * 20, []),
    ],
)
async def test_a_pod_that_cannot_run_is_told_once_for_each_reason(
    told: tuple[tuple[Trouble | None, str], ...], expected: list[str]
) -> None:
    drive = Drive(World(healthy))
    port = Troubled(drive.world)
    port.told = told
    with_cluster(drive, port)
    world = await drive.to_the_end()
    warned = [event for event in world.events if event.reason in set(Trouble)]
    assert [event.reason for event in warned] == expected
    assert all(event.type == "Warning" and "head" in event.message for event in warned)


async def test_a_cluster_that_cannot_get_ready_says_why_in_its_condition() -> None:
    drive = Drive(World(healthy))
    port = Troubled(drive.world)
    port.told = (FULL,) * 60
    with_cluster(drive, port)
    world = await drive.until(lambda world: "Insufficient" in world.status.get("message", ""))
    assert conditions(world)["ClusterReady"] == ("False", "Unschedulable")
    await drive.to_the_end()
    assert reasons(world).count("Unschedulable") == 1


async def test_a_missing_claim_is_told_once() -> None:
    drive = Drive(World(healthy))
    drive.world.claim = False
    for _ in range(20):
        await drive.step()
    told = [event for event in drive.world.events if event.reason == "ClaimNotFound"]
    assert [(event.type, "'ppojob'" in event.message) for event in told] == [("Warning", True)]


async def test_suspending_is_told_until_it_is_done() -> None:
    drive = Drive(World(healthy, stop_seconds=60))
    await drive.until(at_step(12))
    drive.world.edit(suspend=True)
    world = await drive.until(lambda world: "stopRequested" in world.status.get("intent", {}))
    assert world.status["message"].startswith("suspending: spec.suspend is true")
    assert world.status["phase"] == "Running", "it is: the trainer finishes its step and saves"
    await drive.until(lambda world: world.status["phase"] == "Suspended")
    assert not world.clusters
    assert world.status["message"] == "nothing runs; spec.suspend: false goes on"


@pytest.mark.parametrize(("whose", "reason", "clusters"), [("head", "HeadLost", 2), ("worker", "WorkerLost", 1)])
async def test_a_pod_that_is_deleted_under_a_trainer_is_what_is_told(whose: str, reason: str, clusters: int) -> None:
    drive = Drive(World(healthy))
    await drive.until(at_step(12))
    world = drive.world
    pod = world.attempts[1].head_uid if whose == "head" else "another"
    world.attempts[1].command = Command(id=prestop_id(pod), kind=CommandKind.STOP)
    world = await drive.to_the_end()
    first = world.status["attempts"][0]
    assert first["result"] == reason
    assert f"{whose} pod" in first["message"]
    assert [event.message for event in world.events if event.reason == "Restarting"] == [first["message"]]
    resume = world.attempts[2].config.resume
    assert resume is not None
    assert resume.checkpoint.step == world.attempts[1].step, "what was saved before the pod's end is gone on from"
    assert (world.status["phase"], world.status["attempt"]["cluster"]) == ("Succeeded", clusters)


class Reluctant(FakeClusterPort):
    """What is deleted stays for a while: of a RayJob KubeRay's finalizer, of a RayCluster its pods."""

    seconds = 45

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.since: dict[str, Any] = {}

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> None:
        self.since.setdefault(name, self.world.now)
        await super().delete(kind, namespace, name, uid)
        objects: dict[str, Any] = self.world.clusters if kind == "RayCluster" else self.world.ray_jobs
        objects[name].deleting = False

    def _deleting(self, view: Any) -> Any:
        since = self.since.get(view.name)
        return view if since is None else dataclasses.replace(view, deleting=True, deleting_since=since)

    async def list_clusters(self, key: Any) -> Any:
        return self._left(self.world.clusters, await super().list_clusters(key))

    async def list_ray_jobs(self, key: Any) -> Any:
        return self._left(self.world.ray_jobs, await super().list_ray_jobs(key))

    def _left(self, objects: dict[str, Any], views: Any) -> list[Any]:
        for view in views:
            if view.name in self.since and (self.world.now - self.since[view.name]).total_seconds() > self.seconds:
                objects[view.name].deleting = True
        return [self._deleting(view) for view in views]


@pytest.mark.parametrize("kind", ["RayJob", "RayCluster"])
async def test_a_deletion_that_takes_long_is_named_with_its_time(kind: str) -> None:
    drive = Drive(World(healthy, spec=raw_spec()))
    with_cluster(drive, Reluctant(drive.world))
    await drive.until(at_step(12))
    drive.world.edit(suspend=True)
    world = await drive.until(lambda world: f"{kind} job-" in world.status.get("message", ""))
    assert "is being deleted since 2026-01-01T00:" in world.status["message"]
    if kind == "RayCluster":
        assert "waiting for pod job-" in world.status["message"]
    await drive.until(lambda world: world.status["phase"] == "Suspended")
