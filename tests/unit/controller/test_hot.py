"""Rollbacks in the running trainer: whoever claims the command first owns what happens next."""

import pytest
from tests.support.drive import Drive
from tests.support.scripts import healthy, runs_away
from tests.support.world import InPlace, World
from tests.unit.controller.test_story import GUARDED, reasons

from ppojob_contract.mailbox import Claimant
from ppojob_contract.outcomes import ExitClass

LONG = GUARDED | {"training": GUARDED["training"] | {"totalSteps": 90}}


def rolling_back(world: World) -> bool:
    return 1 in world.attempts and world.attempts[1].command is not None


def jobs_created(world: World) -> list[str]:
    return [what for what in world.effects if what.startswith("create RayJob")]


def history(world: World) -> dict[int, str]:
    return {item["number"]: item["result"] for item in world.status["attempts"]}


async def test_the_next_attempt_runs_in_the_same_driver() -> None:
    world = await Drive(World(runs_away(18), spec=GUARDED)).to_the_end()
    assert (world.status["phase"], world.status["rollbacks"], world.status["restarts"]) == ("Succeeded", 1, 0)
    assert len(jobs_created(world)) == 1
    attempt = world.status["attempt"]
    assert (attempt["number"], attempt["carriedBy"], attempt["resume"]) == (2, 1, {"attempt": 1, "step": 10})
    assert world.status["adjustments"] == [{"parameter": "LearningRate", "value": 1e-4, "specValue": 1e-3}]
    assert history(world)[1] == "RolledBack"
    assert "RollbackCold" not in reasons(world)


async def test_three_rollbacks_in_one_driver() -> None:
    world = await Drive(World(runs_away(18, until_below=1.1e-6), spec=GUARDED)).to_the_end()
    assert (world.status["phase"], world.status["rollbacks"]) == ("Succeeded", 3)
    assert world.status["attempt"]["carriedBy"] == 1
    assert len(jobs_created(world)) == 1
    assert [world.attempts[number].config.settings.get("LearningRate") for number in (2, 3, 4)] == [
        pytest.approx(value) for value in (1e-4, 1e-5, 1e-6)
    ]


@pytest.mark.parametrize(
    ("in_place", "number"),
    [
        (InPlace.REFUSE, 2),
        (InPlace.OVERLOOK, 2),
        (InPlace.FAIL, 3),
        (InPlace.DIE, 3),
        (InPlace.HANG, 3),
    ],
)
async def test_what_cannot_be_done_in_place_is_done_by_a_new_start(in_place: InPlace, number: int) -> None:
    spec = LONG | {"failurePolicy": {"startupTimeoutSeconds": 60}, "gracefulStopSeconds": 20}
    world = World(runs_away(18), spec=spec, in_place=in_place)
    await Drive(world).to_the_end()
    assert (world.status["phase"], world.status["rollbacks"], world.status["restarts"]) == ("Succeeded", 1, 0)
    assert world.status["attempt"]["number"] == number
    assert world.attempts[number].config.resume is not None
    assert world.attempts[number].config.resume.checkpoint.step == 10
    assert history(world).get(2) == ("Superseded" if number == 3 else "Succeeded" if number == 2 else None)
    assert "RollbackCold" in reasons(world)
    assert world.overlaps == []


async def test_an_operator_that_was_away_finds_the_next_attempt_running() -> None:
    drive = Drive(World(runs_away(18), spec=GUARDED))
    await drive.until(rolling_back)
    drive.world.tick(8)
    assert drive.world.attempts[2].rows, "the trainer waits for nobody"
    world = await drive.to_the_end()
    assert (world.status["phase"], world.status["rollbacks"], len(jobs_created(world))) == ("Succeeded", 1, 1)


async def test_a_head_lost_after_the_switch_loses_no_judged_row() -> None:
    """The operator did not see the acknowledgement before the head pod went: the claim tells it afterwards."""
    drive = Drive(World(runs_away(18, until_below=5e-5), spec=LONG))
    await drive.until(rolling_back)
    drive.world.tick(12)
    assert drive.world.attempts[2].step >= 18, "attempt 2 has gone bad, too"
    drive.world.lose_head()
    world = await drive.until(lambda world: world.status["rollbacks"] == 2)
    assert 2 in history(world) or world.status["attempt"]["number"] == 2
    world = await drive.to_the_end()
    assert world.overlaps == []


async def test_a_monitor_that_is_away_delays_and_doubles_nothing() -> None:
    drive = Drive(World(runs_away(18), spec=GUARDED))
    await drive.until(lambda world: world.status.get("intent", {}).get("kind") == "Rollback")
    drive.world.reachable = False
    for _ in range(20):
        await drive.step(at_most=2)
    drive.world.reachable = True
    world = await drive.to_the_end()
    assert (world.status["phase"], world.status["rollbacks"], world.status["attempt"]["number"]) == ("Succeeded", 1, 2)


async def test_a_trainer_that_ends_before_it_sees_the_command_burns_no_number() -> None:
    drive = Drive(World(runs_away(18), spec=GUARDED, in_place=InPlace.OVERLOOK))
    await drive.until(rolling_back)
    attempt = drive.world.attempts[1]
    drive.world._end(attempt, ExitClass.OUT_OF_MEMORY)
    world = await drive.to_the_end()
    assert (world.status["phase"], world.status["attempt"]["number"]) == ("Succeeded", 2)
    assert attempt.claimed_by is None


async def test_a_revoked_command_stops_the_trainer() -> None:
    drive = Drive(World(runs_away(18), spec=LONG, in_place=InPlace.OVERLOOK))
    await drive.until(lambda world: world.attempts.get(1) is not None and bool(world.attempts[1].claimed_by))
    world = await drive.to_the_end()
    assert world.attempts[1].claimed_by is Claimant.MONITOR
    assert world.attempts[1].outcome is not None
    assert world.attempts[1].outcome.exit_class is ExitClass.STOPPED
    assert max(ref.step for ref in world.checkpoints if ref.attempt == 1) <= world.attempts[1].step


async def test_suspending_during_a_rollback_in_place_comes_after_it() -> None:
    drive = Drive(World(runs_away(18), spec=GUARDED))
    await drive.until(rolling_back)
    drive.world.edit(suspend=True)
    await drive.until(lambda world: world.status["phase"] == "Suspended")
    drive.world.edit(suspend=False)
    world = await drive.to_the_end()
    assert (world.status["phase"], world.status["rollbacks"]) == ("Succeeded", 1)
    assert world.status["attempts"][1]["result"] == "Suspended"


async def test_a_healthy_run_is_told_nothing() -> None:
    world = await Drive(World(healthy, spec=GUARDED)).to_the_end()
    assert world.attempts[1].command is None
