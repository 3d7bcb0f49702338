"""What rollbacks do about the data, told as whole stories."""

import pytest
from tests.support.builders import raw_spec
from tests.support.drive import Drive
from tests.support.scripts import fails, runs_away
from tests.support.world import World
from tests.unit.controller.test_story import COLD, GUARDED

from ppojob_contract.data_plan import DataPlan, StepRange
from ppojob_contract.outcomes import ExitClass

FAILING = (StepRange(attempt=1, first=17, last=20),)
"""Rows 18, 19 and 20 are bad: the step before the first of them to the breach."""


def with_data(spec, data):
    return spec | {"rollback": spec["rollback"] | {"data": data}}


@pytest.mark.parametrize("spec", [GUARDED, COLD])
@pytest.mark.parametrize(
    ("data", "plan"),
    [
        ("SkipFailing", DataPlan(skip=FAILING, incident=FAILING)),
        ("Replay", DataPlan(incident=FAILING)),
        ("Reshuffle", DataPlan(reshuffle=1, incident=FAILING)),
    ],
)
async def test_the_next_attempt_is_told_what_to_do_about_the_data(spec, data, plan):
    world = await Drive(World(runs_away(18), spec=with_data(spec, data))).to_the_end()
    assert world.attempts[1].config.data == DataPlan()
    assert world.attempts[2].config.data == plan
    assert world.status["attempt"]["data"]["incident"] == [FAILING[0].to_json()]
    assert world.status["attempt"]["dataAnew"] is (data == "Reshuffle")
    assert [event.reason for event in world.events].count("DataOrderBegins") == (data == "Reshuffle")


async def test_skipping_is_the_default():
    world = await Drive(World(runs_away(18), spec=GUARDED)).to_the_end()
    assert world.attempts[2].config.data.skip == FAILING
    started = next(event.message for event in world.events if event.reason == "RollbackStarted")
    assert "the prompts of steps 17 to 20 are left out" in started


@pytest.mark.parametrize("spec", [GUARDED, COLD])
async def test_plans_add_up_over_rollbacks_and_outlive_crashes(spec):
    """Two rollbacks, then a crash: nothing that was left out comes back."""
    world = World(runs_away(18, until_below=5e-5), spec=spec)
    drive = Drive(world)
    await drive.until(lambda world: 3 in world.attempts)
    second = next(iter(world.attempts[3].config.data.skip[1:]))
    assert world.attempts[3].config.data.skip == (*FAILING, second)
    assert second.attempt == 2
    await drive.until(lambda world: world.attempts[3].step >= 20)
    world.lose_head()
    await drive.to_the_end()
    assert world.status["restarts"] == 1
    assert world.attempts[4].config.data.skip == (*FAILING, second)


async def test_an_edit_of_the_batch_size_begins_the_order_anew():
    drive = Drive(World(runs_away(18), spec=GUARDED))
    await drive.until(lambda world: 2 in world.attempts and world.attempts[2].step >= 16)
    drive.world.edit(training=GUARDED["training"] | {"batchSize": 32})
    world = await drive.to_the_end()
    assert world.attempts[3].config.resume is not None
    assert world.attempts[3].config.data.skip == ()
    assert world.status["attempt"]["dataAnew"] is True
    assert any("batchSize changed" in event.message for event in world.events if event.reason == "DataOrderBegins")


async def test_a_crash_alone_leaves_nothing_out():
    world = await Drive(World(fails({1}, 12, ExitClass.UNKNOWN), spec=raw_spec())).to_the_end()
    assert world.status["restarts"] == 1
    assert world.attempts[2].config.data == DataPlan()
    assert world.status["attempt"]["dataAnew"] is False


@pytest.mark.parametrize("spec", [GUARDED, COLD])
@pytest.mark.parametrize(("second", "told"), [("a" * 64, 0), ("b" * 64, 1)])
async def test_files_rewritten_under_the_run_are_told_of_once(spec, second, told):
    world = World(runs_away(18), spec=spec, digests={1: "a" * 64, 2: second})
    await Drive(world).to_the_end()
    assert world.status["attempt"]["datasetDigest"] == second
    assert [event.reason for event in world.events].count("DatasetChanged") == told


async def test_an_edit_of_the_data_is_no_surprise():
    drive = Drive(World(runs_away(50), spec=GUARDED, digests={1: "a" * 64, 2: "b" * 64}))
    await drive.until(lambda world: 1 in world.attempts and world.attempts[1].step >= 12)
    drive.world.edit(data=GUARDED["data"] | {"train": ["/data/more.parquet"]})
    world = await drive.to_the_end()
    assert world.status["attempt"]["datasetDigest"] == "b" * 64
    assert "DatasetChanged" not in [event.reason for event in world.events]
