"""Restarts that a person asks for with `spec.restart`."""

from typing import Any

import pytest
from tests.support.builders import raw_guardrail, raw_spec
from tests.support.drive import Drive
from tests.support.scripts import fails, healthy, runs_away
from tests.support.world import World
from tests.unit.controller.test_retention import at_step, messages
from tests.unit.controller.test_story import GUARDED, conditions, reasons
from tests.unit.controller.test_unloadable import ref, resumes

from ppojob_contract.outcomes import ExitClass

LONG = raw_spec(training=raw_spec()["training"] | {"totalSteps": 60})


def accepted(world: World) -> dict[str, Any]:
    return next(item for item in world.status["conditions"] if item["type"] == "Accepted")


async def test_a_new_nonce_stops_with_a_save_and_goes_on_from_it():
    drive = Drive(World(healthy, spec=LONG))
    await drive.until(at_step(17))
    drive.world.edit(restart={"nonce": "a"})
    world = await drive.to_the_end()
    saved = world.attempts[1].step
    assert resumes(world) == [None, ref(1, saved)]
    assert saved >= 17
    assert (world.status["restarts"], world.status["rollbacks"]) == (0, 0)
    assert world.status["observedRestartNonce"] == "a"
    assert "spec.restart.nonce changed" in messages(world, "SpecChanged")[0]
    assert world.overlaps == []


async def test_a_nonce_of_the_beginning_restarts_nothing():
    world = await Drive(World(healthy, spec=LONG | {"restart": {"nonce": "a", "fromStep": 40}})).to_the_end()
    assert resumes(world) == [None]
    assert world.status["observedRestartNonce"] == "a"


async def test_from_exactly_that_step():
    drive = Drive(World(healthy, spec=LONG))
    await drive.until(at_step(23))
    drive.world.edit(restart={"nonce": "a", "fromStep": 10})
    await drive.until(lambda world: 2 in world.attempts)
    assert resumes(drive.world) == [None, ref(1, 10)]
    drive.world.edit(restart={"nonce": "a", "fromStep": 15})
    world = await drive.to_the_end()
    assert len(world.attempts) == 2, "the same nonce asks for nothing new"


async def test_a_step_without_a_checkpoint_is_told_with_those_that_are_there():
    drive = Drive(World(healthy, spec=LONG))
    await drive.until(at_step(23))
    drive.world.edit(restart={"nonce": "a", "fromStep": 12})
    await drive.until(lambda world: "fromStep" in accepted(world).get("message", ""))
    assert (
        "no checkpoint of step 12 can be loaded; there are those of steps 10, 15, 20"
        in accepted(drive.world)["message"]
    )
    assert "AcceptedWithWarnings" in reasons(drive.world)
    assert len(drive.world.attempts) == 1
    drive.world.edit(restart={"nonce": "a", "fromStep": 15})
    await drive.until(lambda world: 2 in world.attempts)
    assert resumes(drive.world) == [None, ref(1, 15)]
    await drive.to_the_end()
    assert "fromStep" not in accepted(drive.world).get("message", "")


async def test_a_damaged_one_is_not_there():
    drive = Drive(World(healthy, spec=LONG))
    await drive.until(at_step(23))
    drive.world.checkpoints[ref(1, 15)] = "data.pt is missing"
    drive.world.edit(restart={"nonce": "a", "fromStep": 15})
    world = await drive.to_the_end()
    assert resumes(world) == [None]
    assert world.status.get("observedRestartNonce") is None


async def test_a_chosen_one_that_turns_out_unloadable_is_passed_over():
    drive = Drive(World(healthy, spec=LONG))
    await drive.until(at_step(23))
    drive.world.rotten.add(ref(1, 15))
    drive.world.edit(restart={"nonce": "a", "fromStep": 15})
    world = await drive.to_the_end()
    assert resumes(world) == [None, ref(1, 15), ref(1, 10)]
    assert world.status["phase"] == "Succeeded"


async def test_after_a_suspension():
    drive = Drive(World(healthy, spec=LONG))
    await drive.until(at_step(23))
    drive.world.edit(suspend=True)
    await drive.until(lambda world: world.status.get("phase") == "Suspended")
    drive.world.edit(suspend=False, restart={"nonce": "a", "fromStep": 10})
    world = await drive.to_the_end()
    assert resumes(world) == [None, ref(1, 10)]
    assert world.status["observedRestartNonce"] == "a"


async def test_suspend_wins():
    drive = Drive(World(healthy, spec=LONG))
    await drive.until(at_step(12))
    drive.world.edit(suspend=True, restart={"nonce": "a"})
    await drive.until(lambda world: world.status.get("phase") == "Suspended")
    assert len(drive.world.attempts) == 1
    drive.world.edit(suspend=False)
    world = await drive.to_the_end()
    assert len(world.attempts) == 2, "going on is what was asked for"


async def test_a_breach_comes_first():
    spec = GUARDED | {"training": LONG["training"]}
    drive = Drive(World(runs_away(18), spec=spec))
    await drive.until(at_step(17))
    drive.world.tick(4)
    drive.world.edit(restart={"nonce": "a"})
    world = await drive.to_the_end()
    assert reasons(world).index("RollbackStarted") < reasons(world).index("SpecChanged")
    assert (world.status["rollbacks"], world.status["observedRestartNonce"]) == (1, "a")


async def test_a_crash_while_it_is_asked_for_goes_on_where_it_says():
    drive = Drive(World(fails({1}, 23, ExitClass.COMMUNICATION), spec=LONG))
    await drive.until(at_step(21))
    drive.world.reachable = False
    drive.world.tick(10)
    drive.world.edit(restart={"nonce": "a", "fromStep": 10})
    drive.world.reachable = True
    world = await drive.to_the_end()
    assert resumes(world) == [None, ref(1, 10)]


async def test_a_person_resets_the_limits():
    drive = Drive(World(fails({1, 3}, 8, ExitClass.UNKNOWN), spec=LONG | {"failurePolicy": {"maxRestarts": 1}}))
    await drive.until(lambda world: world.status.get("restartsSinceProgress") == 1 and 2 in world.attempts)
    drive.world.edit(restart={"nonce": "a"})
    world = await drive.to_the_end()
    assert len(world.attempts) == 4
    assert conditions(world)["Complete"][0] == "True"


@pytest.mark.parametrize("from_step", [None, 10])
async def test_it_revives_a_run_that_was_paused(from_step):
    spec = GUARDED | {"guardrails": [raw_guardrail(action="Pause")], "training": LONG["training"]}
    drive = Drive(World(runs_away(18), spec=spec))
    await drive.until(lambda world: world.status.get("phase") == "Suspended")
    assert len(drive.world.attempts) == 1
    drive.world.edit(restart={"nonce": "a"} | ({"fromStep": from_step} if from_step else {}))
    await drive.until(lambda world: 2 in world.attempts)
    assert drive.world.attempts[2].config.resume is not None
    assert from_step is None or resumes(drive.world)[1] == ref(1, from_step)
    assert drive.world.status["observedRestartNonce"] == "a"


async def test_a_paused_run_stays_so_where_the_step_is_not_there():
    spec = GUARDED | {"guardrails": [raw_guardrail(action="Pause")], "training": LONG["training"]}
    drive = Drive(World(runs_away(18), spec=spec))
    await drive.until(lambda world: world.status.get("phase") == "Suspended")
    drive.world.edit(restart={"nonce": "a", "fromStep": 11})
    await drive.until(lambda world: "fromStep" in accepted(world).get("message", ""))
    for _ in range(5):
        await drive.step()
    assert drive.world.status["phase"] == "Suspended"
    drive.world.edit(restart={"nonce": "a", "fromStep": 10})
    await drive.until(lambda world: 2 in world.attempts)
    assert resumes(drive.world)[1] == ref(1, 10)
