"""The trial, as whole stories: the real controller over a fake world. It is a PPOJob that nobody else works on here."""

import json

import pytest
from tests.support.builders import raw_guardrail
from tests.support.drive import Drive
from tests.unit.controller.test_stages import PIPELINE, failed, reasons, stages, world


async def test_a_trial_comes_first_and_alone():
    drive = Drive(world(PIPELINE | {"trial": {"steps": 3}, "guardrails": [raw_guardrail()]}))
    await drive.until(lambda now: "is Pending" in now.status.get("message", ""))
    (trial,) = drive.world.others.values()
    assert drive.world.clusters == {}, "the job's own devices are not asked for yet"
    spec = trial["spec"]
    assert "trial" not in spec
    assert "evaluation" not in spec
    assert (spec["training"]["totalSteps"], spec["guardrails"][0]["action"]) == (3, "Fail")
    assert spec["reward"]["terms"][0]["training"]["maxSteps"] == 3
    trial["status"] = {"phase": "Succeeded", "outcome": "Succeeded", "finished": drive.world.now.isoformat()}
    seen = await drive.to_the_end()
    assert seen.status["phase"] == "Succeeded"
    assert seen.attempts[1].config.resume is None, "a trial never seeds the run"
    assert seen.status["stages"][0]["name"] == "Trial"


async def test_a_trial_that_fails_fails_the_job_before_it_takes_a_device():
    drive = Drive(world(PIPELINE | {"trial": {}}))
    await drive.until(lambda now: bool(now.others))
    (trial,) = drive.world.others.values()
    condition = {
        "type": "Failed",
        "status": "True",
        "reason": "DataError",
        "message": "line 3",
        "lastTransitionTime": "",
    }
    condition["lastTransitionTime"] = drive.world.now.isoformat()
    trial["status"] = json.loads(
        json.dumps({"outcome": "DataError", "finished": drive.world.now.isoformat(), "conditions": [condition]})
    )
    seen = await drive.to_the_end()
    assert failed(seen)[0] == "TrialFailed"
    assert "DataError: line 3" in failed(seen)[1]
    assert not any(what.startswith("create RayCluster") for what in seen.effects)


async def test_a_suspended_job_has_no_trial_that_runs():
    drive = Drive(world(PIPELINE | {"trial": {}}))
    await drive.until(lambda now: bool(now.others))
    drive.world.edit(suspend=True)
    await drive.until(lambda now: now.status["phase"] == "Suspended" and not now.others)
    drive.world.edit(suspend=False)
    await drive.until(lambda now: bool(now.others))
    assert next(iter(drive.world.others)).endswith("-trial-2")


async def test_a_trial_that_waits_for_a_person_fails_the_job():
    drive = Drive(world(PIPELINE | {"trial": {}}))
    await drive.until(lambda now: bool(now.others))
    (trial,) = drive.world.others.values()
    pause = {"guardrail": "r", "reason": "GuardrailBreached", "message": "all rewards fail", "attempt": 1, "step": 3}
    trial["status"] = {"phase": "Suspended", "pausedBy": pause | {"since": drive.world.now.isoformat()}}
    seen = await drive.to_the_end()
    assert failed(seen)[0] == "TrialFailed"
    assert "all rewards fail" in failed(seen)[1]


@pytest.mark.parametrize("when", [None, "before", "after"])
async def test_a_trial_that_is_taken_away_while_it_runs_is_deleted_and_the_job_goes_on(when):
    drive = Drive(world(PIPELINE | {"trial": {}}))
    await drive.until(lambda now: bool(now.others))
    first = iter([when])
    drive.world.crash_at = lambda _count, what: next(first, None) if what.startswith("delete PPOJob") else None
    drive.world.edit(trial=None)
    seen = await drive.to_the_end()
    assert seen.status["phase"] == "Succeeded"
    assert seen.others == {}
    entry = stages(seen)["Trial"]
    assert (entry["phase"], entry["message"]) == ("Stopped", "spec.trial was removed")
    assert reasons(seen).count("StageStopped") == 1
    assert drive.crashes == (when is not None)


async def test_a_suspended_trial_says_so():
    drive = Drive(world(PIPELINE | {"trial": {}}))
    await drive.until(lambda now: bool(now.others))
    drive.world.edit(suspend=True)
    await drive.until(lambda now: not now.others and stages(now)["Trial"]["phase"] == "Stopped")
    assert stages(drive.world)["Trial"]["message"] == "the job was suspended"


async def test_a_trial_that_has_succeeded_stays_when_it_is_taken_away():
    drive = Drive(world(PIPELINE | {"trial": {}}))
    await drive.until(lambda now: bool(now.others))
    (trial,) = drive.world.others.values()
    trial["status"] = {"phase": "Succeeded", "outcome": "Succeeded", "finished": drive.world.now.isoformat()}
    await drive.until(lambda now: stages(now)["Trial"]["phase"] == "Succeeded")
    drive.world.edit(trial=None)
    seen = await drive.to_the_end()
    assert (seen.status["phase"], stages(seen)["Trial"]["phase"]) == ("Succeeded", "Succeeded")
