"""Checkpoints that cannot be loaded when they are needed: the one before is taken, and nothing is counted twice."""

import pytest
from tests.support.builders import raw_spec
from tests.support.drive import Drive
from tests.support.scripts import fails, healthy, runs_away
from tests.support.world import InPlace, World
from tests.unit.controller.test_retention import at_step, messages
from tests.unit.controller.test_story import COLD, GUARDED, conditions, reasons

from ppojob_contract.mailbox import CheckpointRef
from ppojob_contract.outcomes import ExitClass


def ref(attempt: int, step: int) -> CheckpointRef:
    return CheckpointRef(attempt=attempt, step=step)


def resumes(world: World) -> list[CheckpointRef | None]:
    return [item.config.resume.checkpoint if item.config.resume else None for item in world.attempts.values()]


async def test_a_rollback_takes_the_confirmed_one_before():
    drive = Drive(World(runs_away(18), spec=COLD))
    drive.world.rotten.add(ref(1, 10))
    world = await drive.to_the_end()
    assert resumes(world) == [None, ref(1, 10), ref(1, 5)]
    assert (world.status["phase"], world.status["rollbacks"], world.status["restarts"]) == ("Succeeded", 1, 0)
    assert world.attempts[3].config.settings == world.attempts[2].config.settings, "the rollback's change stays"
    assert "step 10 (attempt 1) cannot be loaded" in messages(world, "CheckpointUnusable")[0]
    assert reasons(world).count("RollbackStarted") == 1
    assert world.overlaps == []


async def test_a_rollback_in_place_that_cannot_load_goes_on_with_the_one_before():
    drive = Drive(World(runs_away(18), spec=GUARDED))
    drive.world.in_place = InPlace.FAIL
    drive.world.rotten.add(ref(1, 10))
    world = await drive.to_the_end()
    assert resumes(world)[-1] == ref(1, 5)
    assert (world.status["phase"], world.status["rollbacks"], world.status["restarts"]) == ("Succeeded", 1, 0)


async def test_a_target_that_is_damaged_after_the_decision_is_not_tried():
    drive = Drive(World(runs_away(18), spec=COLD))
    await drive.until(lambda world: "intent" in world.status)
    drive.world.checkpoints[ref(1, 10)] = "actor/model.pt is missing"
    world = await drive.to_the_end()
    assert resumes(world) == [None, ref(1, 5)]
    assert (world.status["phase"], world.status["rollbacks"]) == ("Succeeded", 1)


async def test_a_restart_takes_the_one_before_and_is_counted_once():
    spec = raw_spec(failurePolicy={"maxRestarts": 1})
    drive = Drive(World(fails({1}, 13, ExitClass.COMMUNICATION), spec=spec))
    drive.world.rotten.add(ref(1, 10))
    world = await drive.to_the_end()
    assert resumes(world) == [None, ref(1, 10), ref(1, 5)]
    assert (world.status["phase"], world.status["restarts"]) == ("Succeeded", 1)
    assert world.status["attempts"][1]["result"] == "CheckpointUnusable"


@pytest.mark.parametrize("how", ["rotten", "deleted"])
async def test_a_run_whose_checkpoints_are_all_lost_is_not_begun_anew(how):
    drive = Drive(World(healthy))
    await drive.until(at_step(18))
    for each in list(drive.world.checkpoints):
        if how == "rotten":
            drive.world.rotten.add(each)
        else:
            del drive.world.checkpoints[each]
    drive.world.lose_head()
    world = await drive.to_the_end()
    assert conditions(world)["Failed"] == ("True", "NoUsableCheckpoint")
    assert None not in resumes(world)[1:]


async def test_a_crash_before_the_first_checkpoint_begins_anew():
    world = await Drive(World(fails({1}, 3, ExitClass.COMMUNICATION))).to_the_end()
    assert resumes(world) == [None, None]
    assert world.status["phase"] == "Succeeded"
