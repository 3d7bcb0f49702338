"""Stories of checkpoints that pile up, vanish, or fill the volume."""

from typing import Any

import pytest
from tests.support.builders import NOW, raw_guardrail, raw_spec
from tests.support.drive import Drive
from tests.support.fake_stages import FakeStages
from tests.support.scripts import GOOD, fails, healthy, runs_away
from tests.support.world import NO_MANIFEST, World
from tests.unit.controller.test_story import GUARDED, conditions, reasons

from ppojob_contract.journal import RowKind
from ppojob_contract.mailbox import CheckpointRef
from ppojob_contract.outcomes import ExitClass
from ppojob_contract.protocol import Deletion, Refusal, StepRow

LONG = raw_spec()["training"] | {"totalSteps": 100}


def at_step(step: int) -> Any:
    return lambda world: world.status.get("progress", {}).get("step", 0) >= step


def messages(world: World, reason: str) -> list[str]:
    return [event.message for event in world.events if event.reason == reason]


async def watched(drive: Drive, reached: Any) -> list[int]:
    """How many checkpoints there were at each look; the newest two confirmed were among them each time."""
    counts = []
    while not reached(drive.world):
        await drive.step(at_most=1)
        there = [ref for ref in drive.world.confirmed[-2:] if ref in drive.world.checkpoints]
        assert there == drive.world.confirmed[-2:]
        counts.append(len(drive.world.checkpoints))
    return counts


async def test_old_checkpoints_go_and_the_newest_stay():
    drive = Drive(World(healthy, spec=raw_spec(training=LONG)))
    counts = await watched(drive, lambda world: "finished" in world.status)
    assert max(counts) <= 5, "three Confirmed ones, one to be proven, one just saved"
    assert [ref.step for ref in drive.world.checkpoints] == [90, 95, 100]
    assert messages(drive.world, "CheckpointsDeleted")[0].startswith("checkpoints of steps 5 (attempt 1)")
    assert "CheckpointUnusable" not in reasons(drive.world), "its own deletions are no surprise to the operator"
    assert drive.reconciler.telemetry.registry.get_sample_value("ppojob_operator_checkpoints_deleted_total") == 17


async def test_the_checkpoint_that_the_result_is_compared_with_stays_until_the_end():
    evaluation = {"judge": {"term": "digits"}, "baseline": {"step": 10}}
    world = World(healthy, spec=raw_spec(training=LONG, evaluation=evaluation), stages=FakeStages())
    seen = await Drive(world).to_the_end()
    assert seen.status["phase"] == "Succeeded"
    assert [ref.step for ref in seen.checkpoints] == [10, 90, 95, 100]
    assert seen.stages.runs[-1].config.settings["baseline"]["checkpoint"].endswith("/global_step_10")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_crash_at_a_deletion_changes_nothing(when):
    world = World(healthy, spec=raw_spec(training=LONG))
    first = iter([when])
    world.crash_at = lambda _count, what: next(first, None) if what == "delete checkpoints" else None
    drive = Drive(world)
    await drive.to_the_end()
    assert drive.crashes == 1
    assert [ref.step for ref in world.checkpoints] == [90, 95, 100]
    assert "CheckpointUnusable" not in reasons(world)


async def test_a_run_without_its_figures_does_not_fill_the_volume():
    def blind(_attempt, step, _settings):
        return {"kl": GOOD} if step <= 20 else {}

    world = World(blind, spec=GUARDED | {"training": GUARDED["training"] | {"totalSteps": 200}})
    counts = await watched(Drive(world), lambda world: "finished" in world.status)
    assert max(counts) <= 3 + 1 + 4 + 1
    assert CheckpointRef(attempt=1, step=15) in world.checkpoints, "proven before the figures went missing"


async def test_confirming_goes_on_when_the_figures_are_back():
    def gap(_attempt, step, _settings):
        return {} if 20 < step <= 150 else {"kl": GOOD}

    world = World(gap, spec=GUARDED | {"training": GUARDED["training"] | {"totalSteps": 200}})
    await Drive(world).to_the_end()
    assert world.status["checkpoints"]["confirmed"]["step"] == 200


async def test_abandoned_checkpoints_stay_until_the_run_is_beyond_them():
    drive = Drive(World(runs_away(18), spec=GUARDED))
    abandoned = CheckpointRef(attempt=1, step=15)
    await drive.until(lambda world: 2 in world.attempts and world.attempts[2].step >= 14)
    assert abandoned in drive.world.checkpoints
    await drive.to_the_end()
    assert abandoned in drive.world.deleted
    assert CheckpointRef(attempt=1, step=10) not in drive.world.deleted, "the attempt resumed from it"


async def test_a_checkpoint_that_somebody_deletes_is_missed():
    drive = Drive(World(healthy, spec=raw_spec(training=LONG)))
    await drive.until(lambda world: len(world.confirmed) >= 2)
    del drive.world.checkpoints[drive.world.confirmed[-1]]
    await drive.until(lambda world: "CheckpointUnusable" in reasons(world))
    assert "is gone" in messages(drive.world, "CheckpointUnusable")[0]
    assert conditions(drive.world)["RollbackReady"] == ("True", "Confirmed")


async def test_losing_the_only_confirmed_checkpoint_is_a_condition():
    drive = Drive(World(healthy, spec=raw_spec(training=LONG)))
    await drive.until(lambda world: len(world.confirmed) == 1)
    assert conditions(drive.world)["RollbackReady"] == ("True", "Confirmed")
    drive.world.checkpoints[drive.world.confirmed[0]] = "actor/model.pt has 3 bytes instead of 7"
    await drive.until(lambda world: conditions(world)["RollbackReady"] == ("False", "NoConfirmedCheckpoint"))
    (told,) = [item for item in drive.world.status["conditions"] if item["type"] == "RollbackReady"]
    assert "step 5 (attempt 1) cannot be loaded: actor/model.pt has 3 bytes instead of 7" in told["message"]
    assert "actor/model.pt" in messages(drive.world, "CheckpointUnusable")[0]


async def test_a_damaged_confirmed_checkpoint_is_not_deleted_while_it_could_be_mended():
    drive = Drive(World(healthy, spec=raw_spec(training=LONG)))
    await drive.until(lambda world: len(world.confirmed) == 2)
    damaged = drive.world.confirmed[-1]
    drive.world.checkpoints[damaged] = "actor/model.pt is missing"
    drive.world.free_bytes = 0
    await drive.until(lambda world: len([ref for ref in world.confirmed if ref.step > damaged.step]) == 1)
    assert damaged in drive.world.checkpoints
    drive.world.checkpoints[damaged] = None
    await drive.until(lambda world: len([ref for ref in world.confirmed if ref.step > damaged.step]) == 2)
    await drive.to_the_end()
    assert damaged in drive.world.deleted


async def test_on_a_volume_that_is_almost_full_less_is_kept():
    checkpoints = {"everySteps": 5, "confirmSteps": 3, "keepLast": 8}
    drive = Drive(World(healthy, spec=raw_spec(training=LONG, checkpoints=checkpoints)))
    await drive.until(at_step(52))
    assert len(drive.world.checkpoints) >= 8
    drive.world.free_bytes = 1
    counts = await watched(drive, at_step(57))
    assert set(counts) <= {2, 3}, "two Confirmed ones, and one to be proven"


@pytest.mark.parametrize("refused", [False, True])
async def test_space_is_freed_before_the_next_attempt(refused):
    drive = Drive(World(fails({1}, 13, ExitClass.STORAGE_ERROR), spec=raw_spec(training=LONG)))
    await drive.until(lambda world: world.attempts.get(1) is not None and world.attempts[1].outcome is not None)
    half = CheckpointRef(attempt=1, step=13)
    drive.world.checkpoints[half] = NO_MANIFEST
    drive.world.free_bytes = 0
    if refused:
        drive.reconciler.actor.monitor.delete_checkpoints = _refuse
    world = await drive.until(lambda world: 2 in world.attempts)
    assert (half in world.checkpoints) is refused
    assert CheckpointRef(attempt=1, step=10) in world.checkpoints
    assert (world.now - NOW).total_seconds() < 150, "a monitor that refuses does not keep a run for ever"
    if not refused:
        (begun,) = [what for what in world.effects if what.startswith("create RayJob") and what.endswith("a2")]
        assert world.effects.index("delete checkpoints") < world.effects.index(begun)


async def _refuse(_endpoint, checkpoints):
    return Deletion(deleted=(), refused=tuple(Refusal(ref=ref, reason="no") for ref in checkpoints))


async def test_the_best_checkpoint_stays():
    spec = raw_spec(
        training=LONG | {"validateEverySteps": 5},
        checkpoints={"everySteps": 5, "confirmSteps": 3, "keepBest": {"metric": "validationReward"}},
    )
    world = World(healthy, spec=spec)
    drive = Drive(world)
    while "finished" not in world.status:
        await drive.step(at_most=1)
        _validate(world, best_step=20)
    assert CheckpointRef(attempt=1, step=20) in world.checkpoints
    assert world.status["checkpoints"]["best"] == {"attempt": 1, "step": 20, "value": "0.9"}


def _validate(world: World, best_step: int) -> None:
    for attempt in world.attempts.values():
        seen = {row.step for row in attempt.rows if row.kind is RowKind.VALIDATION}
        for row in list(attempt.rows):
            if row.kind is RowKind.STEP and row.step % 5 == 0 and row.step not in seen:
                values = {"validationReward": 0.9 if row.step == best_step else 0.5}
                attempt.rows.append(StepRow(kind=RowKind.VALIDATION, step=row.step, time=row.time, values=values))


async def test_what_the_monitor_refuses_is_not_asked_for_all_the_time():
    drive = Drive(World(healthy, spec=raw_spec(training=LONG, guardrails=[raw_guardrail()])))
    world = drive.world
    asked = []

    async def refuse(endpoint, checkpoints):
        asked.append(world.now)
        return await _refuse(endpoint, checkpoints)

    drive.reconciler.actor.monitor.delete_checkpoints = refuse
    await drive.to_the_end()
    assert 0 < len(asked) <= 100 / 5 + 2, "once for each new checkpoint"
