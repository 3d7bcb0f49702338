"""Runs the real controller over a `World`, restarting it where the test makes it crash."""

from collections.abc import Callable
from datetime import timedelta

from tests.support.world import Crash, FakeClusterPort, FakeMonitorPort, World

from ppojob_operator.api.v1alpha1.spec import Device
from ppojob_operator.controller.act import Actor
from ppojob_operator.controller.observe import Observer
from ppojob_operator.controller.reconcile import AT_ONCE, Course, Reconciler
from ppojob_operator.errors import ClusterUnavailable, Conflict, MonitorUnavailable
from ppojob_operator.ports import Metrics
from ppojob_operator.render.settings import RenderSettings
from ppojob_operator.telemetry import Telemetry

MAX_PASSES = 5000


class Drive:
    """An operator and the world it works on."""

    def __init__(
        self, world: World, *, port: type[FakeClusterPort] = FakeClusterPort, metrics: Metrics | None = None
    ) -> None:
        self.world = world
        self.metrics = metrics
        self._port = port
        self.crashes = 0
        self.began = world.now
        self._start()

    def _start(self) -> None:
        world = self.world
        cluster, monitor = self._port(world), FakeMonitorPort(world)
        observer = Observer(cluster, monitor, world.clock, metrics=self.metrics)
        self.reconciler = Reconciler(
            cluster=cluster,
            observer=observer,
            actor=Actor(cluster, monitor, observer, RenderSettings(images={Device.CPU: "trainer:test"})),
            telemetry=Telemetry(),
            status_interval=timedelta(seconds=30),
        )
        self.course = Course()

    def restart(self) -> None:
        """Another operator, which remembers nothing."""
        self._start()

    async def step(self, *, at_most: int = 10) -> bool:
        """One pass, then as much time as it asked for but no more than `at_most` seconds; False: the job is gone."""
        try:
            delay = await self.reconciler.reconcile(self.world.key, self.course)
        except Crash:
            self.crashes += 1
            self._start()
            return True
        except (Conflict, ClusterUnavailable, MonitorUnavailable):
            self.world.tick()
            return True
        if delay is None:
            return False
        if delay > AT_ONCE:
            self.world.tick(max(1, min(at_most, int(delay.total_seconds()))))
        return True

    async def until(self, reached: Callable[[World], bool], *, at_most: int = 1) -> World:
        """Steps until the world is as wanted; fails with the story so far where that never comes."""
        for _ in range(MAX_PASSES):
            if reached(self.world):
                return self.world
            if not await self.step(at_most=at_most):
                break
        story = "\n".join(f"{event.reason}: {event.message}" for event in self.world.events)
        raise AssertionError(f"never came: {self.world.status}\n{story}\n{self.world.effects[-20:]}")

    async def to_the_end(self, *, at_most: int = 1) -> World:
        return await self.until(lambda world: "finished" in world.status, at_most=at_most)
