"""Edits of stages beside training, as whole stories: the real controller over a fake world."""

from typing import Any

from tests.support.builders import raw_spec
from tests.support.drive import Drive
from tests.support.fake_stages import Doing
from tests.unit.controller.test_stages import PIPELINE, PREPARE, TRAINED, order, stages, world

from ppojob_contract.stages import Stage


async def test_another_edit_of_the_data_prepares_anew_and_nothing_of_it_twice():
    drive = Drive(world(PIPELINE))
    await drive.until(lambda now: now.status.get("progress", {}).get("step", 0) >= 7)
    drive.world.edit(data={"prepare": PREPARE | {"revision": "2"}})
    seen = await drive.to_the_end()
    assert [run.config.stage.value for run in seen.stages.runs] == [
        "Prepare",
        "Reward",
        "Prepare",
        "Reward",
        "Evaluate",
        "Export",
    ]
    assert [run.config.run for run in seen.stages.runs] == [1, 1, 2, 2, 1, 1]
    assert seen.attempts[2].config.overrides["data.train_files"][0].startswith(stages(seen)["Prepare"]["output"])


async def test_an_edit_of_a_stage_that_runs_does_not_wait_for_it():
    drive = Drive(world(PIPELINE, lambda stage, run: Doing(seconds=9999 if (stage, run) == (Stage.REWARD, 1) else 2)))
    await drive.until(lambda now: now.status.get("stage") == "Reward")
    began = drive.world.now
    drive.world.edit(reward={"terms": [{"name": "preference", "training": TRAINED | {"learningRate": 1e-4}}]})
    await drive.until(lambda now: order(now).count("Reward") == 2)
    assert (drive.world.now - began).total_seconds() < 60
    assert drive.world.stages.runs[-1].config.settings["learningRate"] == 1e-4
    seen = await drive.to_the_end()
    assert (seen.status["phase"], stages(seen)["Reward"]["failures"]) == ("Succeeded", 0)


async def test_a_stage_that_is_taken_away_while_it_runs_is_no_more():
    drive = Drive(world(PIPELINE, lambda stage, _run: Doing(seconds=9999 if stage is Stage.PREPARE else 2)))
    await drive.until(lambda now: now.status.get("stage") == "Prepare")
    plain = raw_spec()
    drive.world.edit(data=plain["data"], reward=plain["reward"], evaluation={"judge": {"term": "digits"}})
    seen = await drive.to_the_end()
    assert (seen.status["phase"], stages(seen)["Prepare"]["phase"]) == ("Succeeded", "Stopped")


async def test_a_gate_that_is_made_stricter_needs_no_new_reward_model_and_no_new_attempt():
    drive = Drive(world(PIPELINE))
    await drive.until(lambda now: now.status.get("progress", {}).get("step", 0) >= 7)
    drive.world.edit(reward={"terms": [{"name": "preference", "training": TRAINED | {"minimumAccuracy": 0.95}}]})
    seen = await drive.to_the_end()
    assert (seen.status["phase"], seen.status["attempt"]["number"]) == ("Succeeded", 1)


async def test_how_the_trained_model_scores_can_be_chosen_and_changed_without_training_it_anew():
    def scoring(**fields: Any) -> dict[str, Any]:
        return {"terms": [{"name": "preference", "training": TRAINED | {"scoring": fields}}]}

    drive = Drive(world(PIPELINE | {"reward": scoring(maxLength=99)}))
    await drive.until(lambda now: now.status.get("progress", {}).get("step", 0) >= 7)
    drive.world.edit(reward=scoring(maxLength=77))
    seen = await drive.to_the_end()
    assert (seen.status["phase"], order(seen).count("Reward")) == ("Succeeded", 1)
    assert [seen.attempts[number].config.reward_terms[0]["model"]["maxLength"] for number in (1, 2)] == [99, 77]
    judge = next(run for run in seen.stages.runs if run.config.stage is Stage.EVALUATE).config.settings["judge"]
    assert judge["rewardModel"]["maxLength"] == 77
