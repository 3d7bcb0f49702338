"""Stages beside training, as whole stories: the real controller over a fake world."""

from typing import Any

import pytest
from tests.support.builders import raw_guardrail, raw_spec
from tests.support.drive import Drive
from tests.support.fake_stages import Doing, FakeStages, StageScript
from tests.support.scripts import healthy
from tests.support.world import World

from ppojob_contract.outcomes import ExitClass
from ppojob_contract.stages import Stage

PREPARE = {
    "sources": [
        {"name": "math", "recipe": "GSM8K", "files": ["/ppojob/storage/raw/gsm8k.jsonl"]},
        {"name": "hh", "recipe": "HHRLHF", "files": ["/ppojob/storage/raw/hh.jsonl.gz"], "use": "Pairs"},
    ]
}
TRAINED: dict[str, Any] = {"model": "/models/tiny", "batchSize": 8}
PIPELINE = raw_spec(
    data={"prepare": PREPARE},
    reward={"terms": [{"name": "preference", "training": TRAINED}]},
    evaluation={"judge": {"term": "preference"}},
    export={},
)
WON = {"winRate": 0.7, "winRateLow": 0.45, "validationAccuracy": 0.8}


def figures(stage: Stage, _run: int) -> Doing:
    return Doing(figures=WON, message=f"{stage.value} is done")


def world(spec: dict[str, Any], script: StageScript = figures) -> World:
    return World(healthy, spec=spec, stages=FakeStages(script))


def stages(seen: World) -> dict[str, dict[str, Any]]:
    return {item["name"]: item for item in seen.status["stages"]}


def reasons(seen: World) -> list[str]:
    return [event.reason for event in seen.events]


def failed(seen: World) -> tuple[str, str]:
    found = next(item for item in seen.status["conditions"] if item["type"] == "Failed")
    return found["reason"], found["message"]


async def test_all_stages_run_in_their_order_each_once_and_each_has_what_the_earlier_ones_made():
    seen = await Drive(world(PIPELINE)).to_the_end()
    assert seen.status["phase"] == "Succeeded"
    assert [run.config.stage.value for run in seen.stages.runs] == ["Prepare", "Reward", "Evaluate", "Export"]
    assert seen.stages.twice == []
    prepared, trained = stages(seen)["Prepare"]["output"], stages(seen)["Reward"]["output"]
    attempt = seen.attempts[1].config
    assert attempt.overrides["data.train_files"] == [f"{prepared}/train.parquet"]
    assert attempt.reward_terms[0]["model"]["path"] == f"{trained}/model"
    assert seen.stages.runs[1].config.settings["train"] == [f"{prepared}/pairs-train.parquet"]
    evaluate, export = (run.config.settings for run in seen.stages.runs[2:])
    assert evaluate["candidate"]["checkpoint"].endswith("attempts/0001/checkpoints/global_step_30")
    assert evaluate["judge"] == {"rewardModel": {"path": f"{trained}/model", "maxLength": None}}
    assert evaluate["prompts"][0]["files"] == [f"{prepared}/validation.parquet"]
    assert export["checkpoint"] == evaluate["candidate"]["checkpoint"]
    assert export["card"]["evaluation"]["winRate"] == "0.7"
    assert reasons(seen).count("StageSucceeded") == 4
    assert seen.phases == ["Provisioning", "Running", "Provisioning", "Running", "Succeeded"]
    assert not seen.clusters
    assert not seen.ray_jobs
    created = [what for what in seen.effects if what.startswith("create RayCluster")]
    assert len(created) == 1, "all stages share the job's cluster"


async def test_what_comes_after_training_is_looked_at_where_the_run_begins_and_not_when_it_goes_on():
    drive = Drive(world(PIPELINE | {"export": {"path": "exports/one"}}))
    await drive.until(lambda now: now.status.get("progress", {}).get("step", 0) >= 12)
    drive.world.edit(training=PIPELINE["training"] | {"learningRate": 2e-6})
    seen = await drive.to_the_end()
    first, second = (seen.attempts[number].config for number in (1, 2))
    assert first.afterwards["Export"] == {"target": "/ppojob/storage/exports/one"}
    assert first.afterwards["Evaluate"]["judge"] == {
        "rewardModel": {"path": f"{stages(seen)['Reward']['output']}/model", "maxLength": None}
    }
    assert second.resume is not None
    assert second.afterwards == {}


async def test_the_stage_is_told_while_it_runs():
    drive = Drive(world(PIPELINE, lambda _stage, _run: Doing(seconds=5, figures=WON)))
    await drive.until(lambda now: now.status.get("stage") == "Reward" and "validationAccuracy" in now.status["message"])
    assert drive.world.status["phase"] == "Running"
    await drive.until(lambda now: now.status.get("stage") == "Train")
    await drive.until(lambda now: now.status.get("stage") == "Export")
    seen = await drive.to_the_end()
    assert seen.status["stage"] == "Export"


@pytest.mark.parametrize("how", [None, ExitClass.OUT_OF_MEMORY, ExitClass.STOPPED])
async def test_a_run_that_fails_is_followed_by_another_and_finished_stages_are_not_repeated(how):
    def script(stage: Stage, run: int) -> Doing:
        return Doing(ends=how, message="bad luck") if stage is Stage.REWARD and run == 1 else Doing()

    seen = await Drive(world(PIPELINE, script)).to_the_end()
    assert seen.status["phase"] == "Succeeded"
    assert [(run.config.stage.value, run.config.run) for run in seen.stages.runs] == [
        ("Prepare", 1),
        ("Reward", 1),
        ("Reward", 2),
        ("Evaluate", 1),
        ("Export", 1),
    ]
    assert stages(seen)["Reward"]["failures"] == 1
    assert "StageRetried" in reasons(seen)


async def test_a_stage_that_fails_for_good_fails_the_job_and_says_why():
    def script(_stage: Stage, _run: int) -> Doing:
        return Doing(ends=ExitClass.DATA_ERROR, message="gsm8k.jsonl: line 3 is cut")

    seen = await Drive(world(PIPELINE, script)).to_the_end()
    assert seen.status["phase"] == "Failed"
    assert failed(seen) == ("DataError", "stage Prepare: gsm8k.jsonl: line 3 is cut")
    assert seen.attempts == {}
    assert not seen.clusters


async def test_runs_are_limited():
    spec = PIPELINE | {"failurePolicy": {"maxRestarts": 2}}
    seen = await Drive(world(spec, lambda _stage, _run: Doing(ends=ExitClass.UNKNOWN, message="why"))).to_the_end()
    assert len(seen.stages.runs) == 3
    assert "3 runs failed (spec.failurePolicy.maxRestarts is 2)" in failed(seen)[1]


async def test_a_weak_reward_model_stops_the_job_before_training():
    spec = PIPELINE | {"reward": {"terms": [{"name": "preference", "training": TRAINED | {"minimumAccuracy": 0.9}}]}}
    seen = await Drive(world(spec)).to_the_end()
    reason, message = failed(seen)
    assert reason == "RewardModelTooWeak"
    assert "0.8" in message
    assert "0.9" in message
    assert seen.attempts == {}


@pytest.mark.parametrize(("bound", "phase"), [("Estimate", "Succeeded"), ("LowerBound", "Failed")])
async def test_the_gate_decides_and_what_failed_it_is_not_exported(bound, phase):
    evaluation = PIPELINE["evaluation"] | {"gate": {"minimumWinRate": 0.5, "bound": bound}}
    seen = await Drive(world(PIPELINE | {"evaluation": evaluation})).to_the_end()
    assert seen.status["phase"] == phase
    assert ("Export" in stages(seen)) == (phase == "Succeeded")
    assert seen.status["checkpoints"]["confirmed"]["step"] == 30, "the trained model is there all the same"


@pytest.mark.parametrize("folder", [False, True], ids=["cut", "deleted"])
@pytest.mark.parametrize("stage", ["Prepare", "Reward"])
async def test_an_output_that_is_lost_is_made_again_before_anything_is_trained_on_it(stage, folder):
    drive = Drive(world(PIPELINE))
    await drive.until(lambda now: now.status.get("progress", {}).get("step", 0) >= 12)
    drive.world.stages.lose(Stage(stage), folder=folder)
    drive.world.lose_head()
    await drive.until(lambda now: stages(now)[stage]["run"] == 2)
    assert len(drive.world.attempts) == 1, "the next attempt waits for it"
    seen = await drive.to_the_end()
    assert seen.status["phase"] == "Succeeded"
    assert sorted(order(seen)) == sorted(["Prepare", "Reward", "Evaluate", "Export", stage])
    told = [event.message for event in seen.events if event.reason == "StageRetried"]
    assert len(told) == 1
    assert told[0].startswith(f"stage {stage}: OutputLost: ")
    assert stages(seen)[stage]["output"] in told[0]
    assert stages(seen)[stage]["failures"] == 0


@pytest.mark.parametrize(("rate", "phase"), [(0.499999, "Failed"), (0.5, "Failed"), (0.5001, "Succeeded")])
async def test_a_model_that_only_ties_does_not_pass_the_default_gate(rate, phase):
    evaluation = PIPELINE["evaluation"] | {"gate": {}}

    def script(_stage: Stage, _run: int) -> Doing:
        return Doing(figures=WON | {"winRate": rate})

    seen = await Drive(world(PIPELINE | {"evaluation": evaluation}, script)).to_the_end()
    assert seen.status["phase"] == phase
    if phase == "Failed":
        reason, message = failed(seen)
        assert reason == "GateFailed"
        assert f"is {rate}; it must be above spec.evaluation.gate.minimumWinRate 0.5" in message


async def test_an_accuracy_just_below_its_minimum_does_not_read_as_equal():
    spec = PIPELINE | {"reward": {"terms": [{"name": "preference", "training": TRAINED | {"minimumAccuracy": 0.5}}]}}
    seen = await Drive(
        world(spec, lambda _stage, _run: Doing(figures=WON | {"validationAccuracy": 0.4999}))
    ).to_the_end()
    assert "ranks 0.4999 of" in failed(seen)[1]


async def test_a_suspended_stage_gives_its_devices_back_and_goes_on():
    drive = Drive(world(PIPELINE, lambda _stage, _run: Doing(seconds=20)))
    await drive.until(lambda now: now.status.get("stage") == "Reward")
    drive.world.edit(suspend=True)
    await drive.until(lambda now: now.status["phase"] == "Suspended")
    assert not drive.world.clusters
    assert stages(drive.world)["Reward"]["phase"] == "Stopped"
    drive.world.edit(suspend=False)
    seen = await drive.to_the_end()
    assert [run.config.stage.value for run in seen.stages.runs] == ["Prepare", "Reward", "Reward", "Evaluate", "Export"]
    assert stages(seen)["Reward"]["failures"] == 0


@pytest.mark.parametrize("stage", ["Prepare", "Export"])
async def test_a_lost_head_costs_the_run_and_nothing_else(stage):
    drive = Drive(world(PIPELINE, lambda _stage, _run: Doing(seconds=20)))
    await drive.until(lambda now: now.status.get("stage") == stage and f"{stage} is running" in now.status["message"])
    drive.world.lose_head()
    seen = await drive.to_the_end()
    assert seen.status["phase"] == "Succeeded"
    assert [run.config.run for run in seen.stages.runs if run.config.stage.value == stage] == [1, 2]
    assert len(seen.stages.runs) == 5


@pytest.mark.parametrize("when", ["before", "after", "lost", "unanswered"])
async def test_an_operator_killed_around_any_effect_ends_the_same(when):
    spec = PIPELINE | {"training": PIPELINE["training"] | {"totalSteps": 2}}
    effects = (await Drive(world(spec)).to_the_end()).effects
    for number in range(1, len(effects) + 1, 3):
        drive = Drive(world(spec))
        drive.world.crash_at = lambda count, _what, number=number: when if count == number else None
        seen = await drive.to_the_end()
        assert seen.status["phase"] == "Succeeded", number
        assert [run.config.stage.value for run in seen.stages.runs] == ["Prepare", "Reward", "Evaluate", "Export"]
        assert seen.stages.twice == []


def order(seen: World) -> list[str]:
    return [run.config.stage.value for run in seen.stages.runs]


@pytest.mark.parametrize("stage", ["Evaluate", "Export"])
@pytest.mark.parametrize("how", ["deleted", "edited"])
async def test_a_cluster_that_goes_after_training_takes_no_stage_with_it(stage, how):
    drive = Drive(world(PIPELINE, lambda _stage, _run: Doing(seconds=9, figures=WON)))
    await drive.until(lambda now: f"{stage} is running" in now.status.get("message", ""))
    if how == "deleted":
        drive.world.delete_clusters(2)
    else:
        drive.world.edit(trainer={"env": [{"name": "A", "value": "1"}]})
    seen = await drive.to_the_end()
    assert seen.status["phase"] == "Succeeded"
    assert {name: entry["phase"] for name, entry in stages(seen).items()} == dict.fromkeys(
        ("Prepare", "Reward", "Evaluate", "Export"), "Succeeded"
    )
    assert order(seen).count(stage) == 2
    assert len(seen.stages.runs) == 5


async def test_suspended_after_training_gives_the_devices_back_and_goes_on():
    drive = Drive(world(PIPELINE, lambda _stage, _run: Doing(seconds=20, figures=WON)))
    await drive.until(lambda now: "Evaluate is running" in now.status.get("message", ""))
    drive.world.edit(suspend=True)
    await drive.until(lambda now: now.status["phase"] == "Suspended")
    assert not drive.world.clusters
    drive.world.edit(suspend=False)
    seen = await drive.to_the_end()
    assert seen.status["phase"] == "Succeeded"
    assert order(seen) == ["Prepare", "Reward", "Evaluate", "Evaluate", "Export"]


async def test_another_jobs_later_checkpoint_does_not_begin_the_evaluation_anew():
    drive = Drive(world(PIPELINE | {"evaluation": PIPELINE["evaluation"] | {"baseline": {"job": "other"}}}, slow))
    drive.world.others["other"] = other_job(drive.world, 5)
    await drive.until(lambda now: "Evaluate is running" in now.status.get("message", ""))
    drive.world.others["other"] = other_job(drive.world, 10)
    seen = await drive.to_the_end()
    assert (seen.status["phase"], order(seen).count("Evaluate")) == ("Succeeded", 1)


def slow(_stage: Stage, _run: int) -> Doing:
    return Doing(seconds=9, figures=WON)


def other_job(now: World, step: int) -> dict[str, Any]:
    metadata = {"namespace": "team", "name": "other", "uid": "other-uid", "generation": 1, "resourceVersion": "1"}
    checkpoints = {"confirmed": {"attempt": 1, "step": step}, "items": []}
    return {
        "metadata": metadata | {"creationTimestamp": now.now.isoformat()},
        "spec": {"storage": {"claimName": "ppojob"}},
        "status": {"checkpoints": checkpoints},
    }


async def test_the_card_says_which_step_was_exported():
    def lost(_attempt: int, step: int, _settings: Any) -> dict[str, float]:
        return {"kl": 9.0} if step > 27 else {"kl": 0.01}

    guardrail = raw_guardrail(action="Rollback", afterStep=40)
    seen = await Drive(
        World(lost, spec=PIPELINE | {"guardrails": [guardrail]}, stages=FakeStages(figures))
    ).to_the_end()
    export = seen.stages.runs[-1].config.settings
    step = int(export["checkpoint"].rsplit("_", 1)[1])
    assert step < 30
    assert export["card"]["steps"] == step
