"""Stages after training that failed for good, and what takes them up again: the real controller over a fake world."""

import itertools
from datetime import datetime
from typing import Any

import pytest
from tests.support.drive import Drive
from tests.support.fake_stages import Doing
from tests.support.world import World
from tests.unit.controller.test_stages import PIPELINE, WON, failed, order, reasons, stages, world

from ppojob_contract.outcomes import ExitClass
from ppojob_contract.stages import Stage


def judge_down(stage: Stage, run: int) -> Doing:
    wrong = stage is Stage.EVALUATE and run == 1
    return Doing(figures=WON, ends=ExitClass.CONFIG_ERROR if wrong else ExitClass.SUCCEEDED, message="the key is wrong")


RETRIES: dict[str, dict[str, Any]] = {
    "an edit of the stage": {"evaluation": PIPELINE["evaluation"] | {"maxPrompts": 7}},
    "another nonce": {"restart": {"nonce": "2"}},
}


@pytest.mark.parametrize("edit", RETRIES)
async def test_a_stage_after_training_that_failed_for_good_is_taken_up_again_and_nothing_else_repeated(edit):
    drive = Drive(world(PIPELINE, judge_down))
    seen = await drive.to_the_end()
    assert failed(seen) == ("ConfigError", "stage Evaluate: the key is wrong")
    entry = stages(seen)["Evaluate"]
    assert (entry["phase"], entry["result"], entry["message"]) == (
        "Failed",
        "ConfigError",
        "stage Evaluate: the key is wrong",
    )
    drive.world.edit(**RETRIES[edit])
    await drive.until(lambda now: "finished" not in now.status)
    seen = await drive.to_the_end()
    assert seen.status["phase"] == "Succeeded"
    assert order(seen) == ["Prepare", "Reward", "Evaluate", "Evaluate", "Export"]
    assert list(seen.attempts) == [1]
    assert seen.phases[-4:] == ["Failed", "Provisioning", "Running", "Succeeded"]
    assert reasons(seen).count("TakenUpAgain") == 1
    assert (seen.clusters, seen.ray_jobs) == ({}, {})


async def test_an_export_that_failed_repeats_no_evaluation():
    def script(stage: Stage, run: int) -> Doing:
        taken = stage is Stage.EXPORT and run == 1
        return Doing(figures=WON, ends=ExitClass.DATA_ERROR if taken else ExitClass.SUCCEEDED, message="it is there")

    drive = Drive(world(PIPELINE, script))
    await drive.to_the_end()
    drive.world.edit(export={"path": "exports/another"})
    await drive.until(lambda now: "finished" not in now.status)
    seen = await drive.to_the_end()
    assert (seen.status["phase"], order(seen)) == ("Succeeded", ["Prepare", "Reward", "Evaluate", "Export", "Export"])
    assert seen.stages.runs[-1].config.settings["target"] == "/ppojob/storage/exports/another"


GATED = PIPELINE["evaluation"] | {"gate": {"minimumWinRate": 0.9}}


@pytest.mark.parametrize(
    ("evaluation", "evaluations", "phase"),
    [
        (GATED | {"gate": {"minimumWinRate": 0.6}}, 1, "Succeeded"),
        (GATED | {"maxPrompts": 7}, 2, "Failed"),
        (PIPELINE["evaluation"] | {"maxPrompts": 7}, 2, "Succeeded"),
    ],
)
async def test_a_gate_that_failed_is_judged_again_and_other_prompts_are_answered(evaluation, evaluations, phase):
    drive = Drive(world(PIPELINE | {"evaluation": GATED}))
    assert failed(await drive.to_the_end())[0] == "GateFailed"
    drive.world.edit(evaluation=evaluation)
    await drive.until(lambda now: "finished" not in now.status)
    seen = await drive.to_the_end()
    assert (seen.status["phase"], order(seen).count("Evaluate")) == (phase, evaluations)


@pytest.mark.parametrize(
    "edit", [{"restart": {"nonce": "2"}}, {"export": {"path": "exports/one"}}, {"failurePolicy": {"maxRestarts": 9}}]
)
async def test_a_job_that_failed_before_its_training_was_done_stays_failed(edit):
    drive = Drive(world(PIPELINE, lambda _stage, _run: Doing(ends=ExitClass.DATA_ERROR)))
    await drive.to_the_end()
    drive.world.edit(**edit)
    for _ in range(5):
        await drive.step()
    assert (drive.world.status["phase"], len(drive.world.stages.runs)) == ("Failed", 1)


async def test_what_has_failed_is_not_taken_up_by_an_edit_of_something_else():
    drive = Drive(world(PIPELINE, judge_down))
    await drive.to_the_end()
    drive.world.edit(failurePolicy={"maxRestarts": 9})
    for _ in range(5):
        await drive.step()
    assert (drive.world.status["phase"], order(drive.world).count("Evaluate")) == ("Failed", 1)


async def test_taken_up_again_while_suspended_it_waits():
    drive = Drive(world(PIPELINE, judge_down))
    await drive.to_the_end()
    drive.world.edit(suspend=True, restart={"nonce": "2"})
    await drive.until(lambda now: now.status["phase"] == "Suspended")
    drive.world.edit(suspend=False)
    seen = await drive.to_the_end()
    assert (seen.status["phase"], order(seen).count("Evaluate")) == ("Succeeded", 2)


async def test_the_pauses_between_runs_that_fail_grow_and_are_said():
    def script(_stage: Stage, _run: int) -> Doing:
        return Doing(ends=ExitClass.COMMUNICATION, message="the hub is away")

    drive = Drive(world(PIPELINE | {"failurePolicy": {"maxRestarts": 7}}, script))
    began: list[datetime] = []
    said: set[str] = set()
    while "finished" not in drive.world.status:
        await drive.step()
        if len(drive.world.stages.runs) > len(began):
            began.append(drive.world.now)
        said.add(drive.world.status.get("message", ""))
    between = [(after - before).total_seconds() for before, after in itertools.pairwise(began)]
    for pause, took in zip([10, 20, 40, 80, 160, 300, 300], between, strict=True):
        assert pause <= took <= pause + 40, between
    expected = "stage Prepare, run 3 failed (Communication: the hub is away); the next one begins 40 s after it"
    assert expected in said


async def test_a_person_who_asks_again_does_not_wait():
    drive = Drive(world(PIPELINE, judge_down))
    await drive.to_the_end()
    drive.world.edit(restart={"nonce": "2"})
    assert not any("the next one begins" in message for message in await messages(drive))


async def messages(drive: Drive) -> list[str]:
    """Of every pass until the next run of a stage."""
    runs, found = len(drive.world.stages.runs), []
    while len(drive.world.stages.runs) == runs:
        await drive.step()
        found.append(drive.world.status.get("message", ""))
    return found


@pytest.mark.parametrize("when", ["before", "after", "lost", "unanswered"])
async def test_an_operator_killed_around_any_effect_takes_it_up_the_same(when):
    async def story(crash: int) -> tuple[World, int]:
        spec = PIPELINE | {"training": PIPELINE["training"] | {"totalSteps": 2}}
        drive = Drive(world(spec, judge_down))
        await drive.to_the_end()
        before = len(drive.world.effects)
        drive.world.crash_at = lambda count, _what: when if count == before + crash else None
        drive.world.edit(restart={"nonce": "2"})
        await drive.until(lambda now: "finished" not in now.status)
        return await drive.to_the_end(), len(drive.world.effects) - before

    _, effects = await story(0)
    for crash in range(1, effects + 1, 3):
        seen, _ = await story(crash)
        assert seen.status["phase"] == "Succeeded", crash
        assert order(seen) == ["Prepare", "Reward", "Evaluate", "Evaluate", "Export"]
        assert seen.stages.twice == []
