"""What must not hang, be lost, or be done twice when several things go wrong at once."""

import dataclasses
import math
from collections.abc import Callable
from datetime import timedelta

import pytest
from tests.support.builders import raw_guardrail, raw_spec
from tests.support.drive import Drive
from tests.support.scripts import BAD, GOOD, fails, healthy, runs_away
from tests.support.world import FakeCluster, FakeClusterPort, FakeMonitorPort, World
from tests.unit.controller.test_story import COLD, GUARDED, conditions, reasons

from ppojob_contract.outcomes import ExitClass
from ppojob_contract.protocol import LockState, State
from ppojob_operator.domain.observation import RayClusterView
from ppojob_operator.errors import ClusterUnavailable, MonitorUnavailable
from ppojob_operator.ports import Endpoint

LONG = GUARDED | {"training": GUARDED["training"] | {"totalSteps": 60}}


def at_step(step: int) -> Callable[[World], bool]:
    return lambda world: world.status.get("progress", {}).get("step", 0) >= step


def with_cluster(drive: Drive, port: FakeClusterPort) -> None:
    for part in (drive.reconciler, drive.reconciler.observer, drive.reconciler.actor):
        object.__setattr__(part, "cluster", port)


def with_monitor(drive: Drive, port: FakeMonitorPort) -> None:
    for part in (drive.reconciler.observer, drive.reconciler.actor):
        object.__setattr__(part, "monitor", port)


def resumed_at(world: World, attempt: int) -> int | None:
    resume = world.attempts[attempt].config.resume
    return resume.checkpoint.step if resume else None


# ---- a breach that nobody saw -------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["head lost", "suspended", "edited"])
async def test_a_breach_that_was_not_seen_is_acted_on_when_it_is_found(what):
    drive = Drive(World(runs_away(18), spec=LONG))
    await drive.until(at_step(12))
    world = drive.world
    world.reachable = False
    world.tick(20)
    if what == "head lost":
        world.lose_head()
    elif what == "suspended":
        world.edit(suspend=True)
    else:
        world.edit(training=LONG["training"] | {"ppoEpochs": 2})
    world.reachable = True
    if what == "suspended":
        await drive.until(lambda world: world.status["phase"] == "Suspended")
        world.edit(suspend=False)
    await drive.to_the_end()
    assert (world.status["phase"], world.status["rollbacks"]) == ("Succeeded", 1)
    assert resumed_at(world, 2) == 10
    assert world.attempts[2].config.settings
    assert world.overlaps == []


async def test_a_run_that_went_bad_unseen_to_its_end_does_not_succeed_on_it():
    drive = Drive(World(runs_away(18), spec=LONG))
    await drive.until(at_step(12))
    drive.world.reachable = False
    await drive.until(lambda world: world.attempts[1].outcome is not None)
    drive.world.lose_head()
    drive.world.reachable = True
    world = await drive.to_the_end()
    assert (world.status["rollbacks"], resumed_at(world, 2)) == (1, 10)


async def test_a_checkpoint_that_the_first_bad_row_describes_is_no_target():
    drive = Drive(World(runs_away(16), spec=GUARDED | {"guardrails": []}))
    await drive.until(at_step(25))
    drive.world.edit(guardrails=[raw_guardrail()])
    world = await drive.to_the_end()
    assert resumed_at(world, 2) == 10, "row 16 describes checkpoint 15"


# ---- limits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blind", [False, True])
async def test_progress_counts_before_the_rollback_limit_does(blind):
    def script(attempt, step, _settings):
        bad = (attempt == 1 and step >= 18) or (attempt == 2 and step >= 42)
        return {"kl": BAD if bad else GOOD}

    drive = Drive(World(script, spec=LONG | {"rollback": LONG["rollback"] | {"limit": 1}}))
    await drive.until(lambda world: 2 in world.attempts and world.attempts[2].step >= 12)
    if blind:
        drive.world.reachable = False
        await drive.until(lambda world: world.attempts[2].step >= 48)
        drive.world.reachable = True
    world = await drive.to_the_end()
    assert (world.status["phase"], world.status["rollbacks"]) == ("Succeeded", 2)


async def test_steps_that_the_status_knows_count_as_progress():
    drive = Drive(World(fails({1, 2, 3}, 8, ExitClass.UNKNOWN)))
    await drive.until(lambda world: world.status.get("attempt", {}).get("lastStep", 0) >= 20)
    drive.world.lose_head()
    drive._start()
    assert (await drive.to_the_end()).status["phase"] == "Succeeded"


async def test_no_restart_is_no_restart():
    spec = raw_spec(failurePolicy={"maxRestarts": 0})
    world = await Drive(World(fails({1}, 8, ExitClass.UNKNOWN), spec=spec)).to_the_end()
    assert (world.status["phase"], world.status["restarts"]) == ("Failed", 0)


async def test_many_restarts_from_one_checkpoint_keep_it():
    spec = raw_spec(failurePolicy={"maxRestarts": 30}, checkpoints={"everySteps": 10, "confirmSteps": 3})
    world = await Drive(World(fails(set(range(1, 26)), 18, ExitClass.UNKNOWN), spec=spec)).to_the_end()
    assert world.status["phase"] == "Succeeded"
    assert {resumed_at(world, number) for number in range(2, 27)} == {10}
    assert len(world.status["attempts"]) == 20


# ---- nothing hangs ------------------------------------------------------------------------------------------------


class BadImages(FakeClusterPort):
    """Clusters made of the image `typo:1` never get ready."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.bad: set[str] = set()

    async def create(self, manifest):
        if manifest["kind"] == "RayCluster" and "typo:1" in str(manifest):
            self.bad.add(manifest["metadata"]["name"])
        await super().create(manifest)

    def _view(self, cluster: FakeCluster) -> RayClusterView:
        view = super()._view(cluster)
        if cluster.name not in self.bad or view.head is None:
            return view
        return dataclasses.replace(view, head=dataclasses.replace(view.head, ready=False, message="ImagePullBackOff"))


async def test_a_wrong_image_can_be_mended_before_the_first_attempt():
    drive = Drive(World(healthy, spec=raw_spec(trainer={"image": "typo:1"})))
    with_cluster(drive, BadImages(drive.world))
    await drive.until(lambda world: "ImagePullBackOff" in world.status.get("message", ""))
    drive.world.edit(trainer={"image": "right:1"})
    world = await drive.to_the_end()
    assert (world.status["phase"], world.status["attempt"]["cluster"]) == ("Succeeded", 2)


async def test_a_wrong_image_can_be_mended_in_a_running_job():
    drive = Drive(World(healthy, spec=LONG))
    with_cluster(drive, BadImages(drive.world))
    await drive.until(at_step(12))
    drive.world.edit(trainer={"image": "typo:1"})
    await drive.until(lambda world: "ImagePullBackOff" in world.status.get("message", ""))
    drive.world.edit(trainer={"image": "right:1"})
    world = await drive.to_the_end()
    assert (world.status["phase"], world.status["attempt"]["cluster"]) == ("Succeeded", 3)


class DeafMonitor(FakeMonitorPort):
    """From `deaf` on, the monitor of the first cluster never answers again."""

    deaf = False

    def _reach(self) -> None:
        if self.deaf and any(cluster.number == 1 for cluster in self.world.clusters.values()):
            raise MonitorUnavailable("the monitor's container was killed")


async def test_a_rollback_does_not_wait_for_ever_for_a_monitor():
    drive = Drive(World(runs_away(18), spec=GUARDED))
    monitor = DeafMonitor(drive.world)
    with_monitor(drive, monitor)
    await drive.until(lambda world: world.status.get("intent", {}).get("kind") == "Rollback")
    monitor.deaf = True
    world = await drive.to_the_end(at_most=5)
    assert (world.status["phase"], world.status["rollbacks"], world.status["attempt"]["cluster"]) == ("Succeeded", 1, 2)


async def test_an_end_whose_monitor_never_answers_is_read_on_another_cluster():
    drive = Drive(World(healthy))
    monitor = DeafMonitor(drive.world)
    with_monitor(drive, monitor)
    await drive.until(at_step(12))
    monitor.deaf = True
    world = await drive.to_the_end(at_most=5)
    assert (world.status["phase"], world.status["restarts"]) == ("Succeeded", 1)


async def test_a_driver_that_lives_is_not_given_up_because_kuberay_lost_sight_of_it():
    drive = Drive(World(healthy, spec=LONG))
    await drive.until(at_step(12))
    next(iter(drive.world.ray_jobs.values())).status = "FAILED"
    world = await drive.to_the_end()
    assert (world.status["phase"], world.status["restarts"]) == ("Succeeded", 0)


async def test_a_frozen_lock_costs_the_cluster_not_the_run():
    class Frozen(FakeMonitorPort):
        async def state(self, endpoint: Endpoint) -> State:
            state = await super().state(endpoint)
            stuck = (
                any(cluster.number == 1 for cluster in self.world.clusters.values()) and 2 not in self.world.attempts
            )
            return dataclasses.replace(state, lock=LockState.HELD) if stuck and self.world.attempts else state

    drive = Drive(World(runs_away(18), spec=COLD))
    with_monitor(drive, Frozen(drive.world))
    world = await drive.to_the_end(at_most=5)
    assert (world.status["phase"], world.status["attempt"]["cluster"]) == ("Succeeded", 2)


async def test_what_the_api_server_refuses_is_told_and_tried_again():
    class Quota(FakeClusterPort):
        async def create(self, manifest):
            if manifest["kind"] == "RayCluster" and self.world.now.minute < 2:
                raise ClusterUnavailable("403: exceeded quota: gpus")
            await super().create(manifest)

    drive = Drive(World(healthy))
    with_cluster(drive, Quota(drive.world))
    world = await drive.to_the_end()
    assert world.status["phase"] == "Succeeded"
    assert any(event.reason == "ActionFailed" and "quota" in event.message for event in world.events)


async def test_a_refused_spec_is_not_looked_at_all_the_time():
    spec = raw_spec(guardrails=[raw_guardrail(conditions=[{"metric": "nosuch", "above": 1.0}])])
    drive = Drive(World(healthy, spec=spec))
    delay = await drive.reconciler.reconcile(drive.world.key, drive.course)
    assert delay is not None
    assert delay >= timedelta(minutes=1)


# ---- edits and other details ---------------------------------------------------------------------------------------


async def test_editing_a_parameter_during_a_rollback_drops_its_adjustment():
    drive = Drive(World(runs_away(18, until_below=1.0), spec=GUARDED))
    await drive.until(lambda world: world.status.get("intent", {}).get("kind") == "Rollback")
    drive.world.edit(training=GUARDED["training"] | {"learningRate": 5e-4})
    await drive.until(lambda world: 2 in world.attempts)
    assert drive.world.attempts[2].config.settings == {}


async def test_more_steps_asked_for_as_the_run_ends():
    drive = Drive(World(healthy))
    await drive.until(lambda world: 1 in world.attempts and world.attempts[1].step == 29)
    drive.world.tick(3)
    drive.world.edit(training=raw_spec()["training"] | {"totalSteps": 60})
    world = await drive.to_the_end()
    assert (world.status["phase"], world.status["progress"]["step"]) == ("Succeeded", 60)


async def test_workers_that_lost_each_other_get_another_cluster():
    world = await Drive(World(fails({1}, 8, ExitClass.COMMUNICATION))).to_the_end()
    assert (world.status["phase"], world.status["attempt"]["cluster"]) == ("Succeeded", 2)


async def test_an_ended_job_keeps_its_verdicts():
    drive = Drive(World(runs_away(2), spec=GUARDED))
    world = await drive.to_the_end()
    before = conditions(world)["Healthy"], world.status["guardrails"]
    drive._start()
    await drive.step()
    assert (conditions(world)["Healthy"], world.status["guardrails"]) == before
    assert before[0] == ("False", "GuardrailBreached")


async def test_a_non_finite_value_acts_in_grace_too():
    def script(attempt, step, _settings):
        values = {1: math.inf if step >= 18 else GOOD, 2: math.nan if 11 <= step <= 13 else GOOD}
        return {"kl": values.get(attempt, GOOD)}

    world = await Drive(World(script, spec=GUARDED)).to_the_end()
    assert world.status["rollbacks"] == 2


@pytest.mark.parametrize("rhythm", [1, 10])
async def test_each_episode_of_a_warning_is_told(rhythm):
    def script(_attempt, step, _settings):
        return {"kl": BAD if step in {5, 6, 7, 15, 16, 17} else GOOD}

    spec = GUARDED | {"guardrails": [raw_guardrail(action="Warn")]}
    world = await Drive(World(script, spec=spec)).to_the_end(at_most=rhythm)
    told = [event.message for event in world.events if event.reason == "GuardrailBreached"]
    assert ["since step 5" in told[0], "since step 15" in told[1], len(told)] == [True, True, 2]


async def test_an_event_survives_an_act_that_fails_once():
    class Flaky(FakeClusterPort):
        failed = False

        async def create(self, manifest):
            if manifest["kind"] == "RayJob" and not self.failed:
                self.failed = True
                raise ClusterUnavailable("503")
            await super().create(manifest)

    drive = Drive(World(healthy))
    with_cluster(drive, Flaky(drive.world))
    assert reasons(await drive.to_the_end()).count("AttemptStarted") == 1


async def test_a_cluster_deleted_by_hand_is_replaced_when_its_pods_have_ended():
    drive = Drive(World(healthy))
    await drive.until(lambda world: len(world.confirmed) >= 1)
    drive.world.delete_clusters(grace_seconds=40)
    await drive.until(lambda world: "earlier RayCluster" in world.status["message"])
    world = await drive.to_the_end()
    assert world.status["phase"] == "Succeeded"
    assert world.overlaps == [], "the old driver runs on in its terminating pod"
    assert world.status["restarts"] == 1
