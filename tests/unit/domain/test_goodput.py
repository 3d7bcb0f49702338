"""Useful steps of all steps, training time of time held: through rollbacks, pauses and killed operators."""

from datetime import timedelta

import pytest
from tests.support.builders import NOW, raw_guardrail, raw_spec
from tests.support.drive import Drive
from tests.support.scripts import healthy, runs_away
from tests.support.world import World

from ppojob_contract.journal import RowKind
from ppojob_contract.protocol import AttemptState
from ppojob_operator.api.v1alpha1.status import Goodput
from ppojob_operator.domain.goodput import held_seconds

GUARDED = raw_spec(
    guardrails=[raw_guardrail()],
    rollback={"adjust": [{"parameter": "LearningRate", "multiply": 0.1}]},
    training=raw_spec()["training"] | {"learningRate": 1e-3},
)


def written(world: World) -> list[float]:
    """Durations of all step rows on the claim."""
    rows = [row for attempt in world.attempts.values() for row in attempt.rows if row.kind is RowKind.STEP]
    return [row.values["stepSeconds"] for row in rows]


async def test_of_a_run_without_incident_all_is_useful() -> None:
    world = await Drive(World(healthy)).to_the_end()
    found = Goodput.model_validate(world.status["goodput"])
    assert (found.steps, found.useful_steps) == (30, 30)
    assert found.training_seconds == pytest.approx(sum(written(world)))
    assert found.held_since is None
    assert found.training_seconds < found.held_seconds <= (world.now - NOW).total_seconds()


@pytest.mark.parametrize("path", ["Auto", "Cold"])
@pytest.mark.parametrize("rhythm", [1, 5])
async def test_steps_behind_the_target_of_a_rollback_are_lost(path: str, rhythm: int) -> None:
    drive = Drive(World(runs_away(18), spec=GUARDED | {"rollback": GUARDED["rollback"] | {"path": path}}))
    await drive.until(lambda world: world.status.get("rollbacks") == 1)
    at_once = drive.world.status["goodput"]
    assert at_once["usefulSteps"] == 10
    world = await drive.to_the_end(at_most=rhythm)
    found = Goodput.model_validate(world.status["goodput"])
    lost = world.attempts[1].step - 10
    assert (found.useful_steps, found.steps) == (30, 30 + lost)
    assert found.steps == len(written(world))


async def test_rows_that_nobody_saw_while_their_attempt_ran_count() -> None:
    """The monitor is away when the attempt ends; what it wrote is there when it is back."""
    drive = Drive(World(runs_away(18), spec=GUARDED | {"rollback": GUARDED["rollback"] | {"path": "Cold"}}))
    await drive.until(lambda world: world.status.get("rollbacks") == 1)
    seen = drive.world.status["goodput"]["steps"]
    drive.world.reachable = False
    await drive.until(lambda world: world.attempts[1].outcome is not None or not world.ray_jobs, at_most=5)
    drive.world.reachable = True
    world = await drive.to_the_end()
    assert world.status["goodput"]["steps"] == len(written(world)) > seen + 20


def test_a_monitor_that_is_older_than_the_operator_takes_nothing_away() -> None:
    old = AttemptState.from_json(
        dict.fromkeys(("lastStep", "lastHeartbeatAgeSeconds", "command", "claimedBy"))
        | {"attempt": 1, "rows": 12, "ack": None, "outcome": None}
    )
    assert (old.steps, old.step_seconds) == (0, 0.0)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_killed_operator_counts_nothing_twice_and_misses_nothing(when: str) -> None:
    world = World(runs_away(18), spec=GUARDED, crash_at=lambda count, _: when if count % 3 == 0 else None)
    await Drive(world).to_the_end()
    found = Goodput.model_validate(world.status["goodput"])
    assert (found.steps, found.useful_steps) == (len(written(world)), 30)
    assert found.training_seconds == pytest.approx(sum(written(world)))


async def test_nothing_is_held_while_suspended() -> None:
    drive = Drive(World(healthy))
    await drive.until(lambda world: world.status.get("progress", {}).get("step", 0) >= 5)
    drive.world.edit(suspend=True)
    await drive.until(lambda world: world.status["phase"] == "Suspended")
    assert drive.world.status["goodput"].get("heldSince") is None
    before = drive.world.status["goodput"]["heldSeconds"]
    drive.world.tick(10_000)
    drive.world.edit(suspend=False)
    world = await drive.to_the_end()
    assert before < world.status["goodput"]["heldSeconds"] < before + 5_000


def test_clocks_that_go_back_take_nothing_away() -> None:
    value = Goodput(held_seconds=5.0, held_since=NOW)
    assert held_seconds(value, NOW - timedelta(seconds=9)) == 5.0
