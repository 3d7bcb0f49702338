"""Whole stories: the real controller over a fake world, from `kubectl apply` to the end."""

import pytest
from tests.support.builders import raw_guardrail, raw_spec
from tests.support.drive import Drive
from tests.support.scripts import fails, healthy, runs_away
from tests.support.world import World

from ppojob_contract.mailbox import CheckpointRef, CommandKind
from ppojob_contract.outcomes import ExitClass

GUARDED = raw_spec(
    guardrails=[raw_guardrail()],
    rollback={"adjust": [{"parameter": "LearningRate", "multiply": 0.1}]},
    training=raw_spec()["training"] | {"learningRate": 1e-3},
)

COLD = GUARDED | {"rollback": GUARDED["rollback"] | {"path": "Cold"}}


def reasons(world: World) -> list[str]:
    return [event.reason for event in world.events]


def conditions(world: World) -> dict[str, tuple[str, str]]:
    return {item["type"]: (item["status"], item["reason"]) for item in world.status["conditions"]}


async def test_a_healthy_run_succeeds_and_gives_its_cluster_back():
    world = await Drive(World(healthy)).to_the_end()
    assert world.phases == ["Provisioning", "Running", "Succeeded"]
    assert conditions(world)["Complete"] == ("True", "Succeeded")
    assert world.status["message"] == "all 30 steps are done"
    assert world.status["progress"] == world.status["progress"] | {"step": 30, "totalSteps": 30, "percent": 100}
    assert world.status["checkpoints"]["confirmed"] == {"attempt": 1, "step": 30}
    assert [ref.step for ref in world.confirmed] == [20, 25, 30]
    assert conditions(world)["RollbackReady"] == ("True", "Confirmed")
    assert not world.clusters
    assert not world.ray_jobs


@pytest.mark.parametrize(("spec", "command"), [(GUARDED, CommandKind.ROLLBACK), (COLD, CommandKind.STOP)])
async def test_a_run_that_goes_bad_goes_back_to_its_last_confirmed_checkpoint(spec, command):
    world = await Drive(World(runs_away(18), spec=spec)).to_the_end()
    assert world.status["phase"] == "Succeeded"
    assert (world.status["rollbacks"], world.status["attempt"]["number"]) == (1, 2)
    assert world.status["attempt"]["resume"] == {"attempt": 1, "step": 10}
    assert world.attempts[2].config.settings == {"LearningRate": pytest.approx(1e-4)}
    assert world.phases == ["Provisioning", "Running", "RollingBack", "Running", "Succeeded"]
    assert reasons(world).count("RollbackStarted") == 1
    created = [what for what in world.effects if what.startswith("create RayCluster")]
    assert len(created) == 1, "the cluster survives a rollback"
    assert world.attempts[1].command is not None
    assert world.attempts[1].command.kind is command
    if command is CommandKind.STOP:
        assert not world.attempts[1].command.save, "a bad run's last step is not worth saving"
    assert CheckpointRef(attempt=1, step=10) in world.checkpoints, "attempt 2 resumed from it"
    assert CheckpointRef(attempt=1, step=15) in world.deleted, "abandoned, and the run is beyond it"
    assert world.overlaps == []


async def test_the_breach_is_found_although_nobody_looked():
    spec = GUARDED | {"training": GUARDED["training"] | {"totalSteps": 60}}
    drive = Drive(World(runs_away(18), spec=spec))
    await drive.until(lambda world: world.status.get("progress", {}).get("step", 0) >= 12)
    drive.world.reachable = False
    await drive.until(lambda world: world.attempts[1].step >= 40)
    assert conditions(drive.world)["Healthy"] == ("Unknown", "Inconclusive")
    assert drive.world.status["rollbacks"] == 0, "silence is never a breach"
    drive.world.reachable = True
    world = await drive.to_the_end()
    assert (world.status["rollbacks"], world.status["attempt"]["resume"]["step"]) == (1, 10)
    assert "Inconclusive" in reasons(world)


async def test_silence_alone_rolls_nothing_back():
    drive = Drive(World(healthy, spec=GUARDED))
    await drive.until(lambda world: world.status.get("progress", {}).get("step", 0) >= 5)
    drive.world.reachable = False
    await drive.until(lambda world: world.status["guardrails"][0]["verdict"] == "Inconclusive")
    drive.world.reachable = True
    world = await drive.to_the_end()
    assert (world.status["rollbacks"], world.status["restarts"]) == (0, 0)


@pytest.mark.parametrize("rhythm", [1, 7, 100])
async def test_the_same_decisions_at_any_rhythm(rhythm):
    spec = GUARDED | {"training": GUARDED["training"] | {"totalSteps": 60}}
    world = await Drive(World(runs_away(32), spec=spec)).to_the_end(at_most=rhythm)
    assert world.status["rollbacks"] == 1
    assert world.attempts[2].config.resume is not None
    assert world.attempts[2].config.resume.checkpoint == CheckpointRef(attempt=1, step=25)


async def test_a_dry_run_says_what_it_would_do():
    spec = GUARDED | {"guardrails": [raw_guardrail(dryRun=True)]}
    world = await Drive(World(runs_away(18), spec=spec)).to_the_end()
    assert (world.status["rollbacks"], world.status["attempt"]["number"]) == (0, 1)
    assert "RollbackDryRun" in reasons(world)


async def test_a_warning_guardrail_only_warns():
    spec = GUARDED | {"guardrails": [raw_guardrail(action="Warn")]}
    world = await Drive(World(runs_away(18), spec=spec)).to_the_end()
    assert world.status["rollbacks"] == 0
    assert reasons(world).count("GuardrailBreached") == 1


async def test_a_breach_before_any_confirmed_checkpoint_fails_with_the_way_out():
    world = await Drive(World(runs_away(2), spec=GUARDED)).to_the_end()
    assert world.status["phase"] == "Failed"
    assert conditions(world)["Failed"] == ("True", "NoConfirmedCheckpoint")
    message = next(item["message"] for item in world.status["conditions"] if item["type"] == "Failed")
    assert "everySteps" in message
    assert not world.clusters


async def test_rollbacks_are_limited():
    spec = GUARDED | {"rollback": {"limit": 2, "adjust": [{"parameter": "LearningRate", "multiply": 0.9}]}}
    world = await Drive(World(runs_away(18, until_below=0.0), spec=spec)).to_the_end()
    assert world.status["phase"] == "Failed"
    assert conditions(world)["Failed"] == ("True", "RollbacksExhausted")
    assert world.status["rollbacks"] == 2


async def test_adjustments_do_not_compound_over_restarts():
    def script(attempt, step, settings):
        if attempt == 2 and step == 20:
            return {"raise": float(list(ExitClass).index(ExitClass.COMMUNICATION))}
        return runs_away(18)(attempt, step, settings)

    world = await Drive(World(script, spec=GUARDED)).to_the_end()
    assert world.status["phase"] == "Succeeded"
    assert (world.status["attempt"]["number"], world.status["restarts"]) == (3, 1)
    assert world.attempts[3].config.settings == {"LearningRate": pytest.approx(1e-4)}


async def test_suspend_saves_and_frees_everything_and_resume_goes_on():
    drive = Drive(World(healthy))
    await drive.until(lambda world: world.status.get("progress", {}).get("step", 0) >= 12)
    drive.world.edit(suspend=True)
    world = await drive.until(lambda world: world.status["phase"] == "Suspended")
    assert not world.clusters
    stopped_at = world.attempts[1].step
    assert CheckpointRef(attempt=1, step=stopped_at) in world.checkpoints
    world.edit(suspend=False)
    world = await drive.to_the_end()
    assert world.status["attempt"]["resume"] == {"attempt": 1, "step": stopped_at}
    assert (world.status["phase"], world.status["restarts"], world.status["attempt"]["cluster"]) == ("Succeeded", 0, 2)


async def test_suspended_from_the_start_creates_nothing():
    drive = Drive(World(healthy, spec=raw_spec(suspend=True)))
    for _ in range(5):
        await drive.step()
    assert drive.world.status["phase"] == "Suspended"
    assert set(drive.world.effects) == {"write_status"}


async def test_a_lost_head_gets_a_new_cluster_and_the_newest_checkpoint():
    drive = Drive(World(healthy))
    await drive.until(lambda world: world.status.get("progress", {}).get("step", 0) >= 12)
    drive.world.lose_head()
    world = await drive.to_the_end()
    assert world.status["phase"] == "Succeeded"
    assert (world.status["restarts"], world.status["attempt"]["cluster"]) == (1, 2)
    assert world.status["attempt"]["resume"] == {"attempt": 1, "step": 10}
    assert world.overlaps == []


@pytest.mark.parametrize("how", [ExitClass.CONFIG_ERROR, ExitClass.DATA_ERROR])
async def test_what_cannot_end_differently_is_not_tried_again(how):
    world = await Drive(World(fails({1}, 3, how))).to_the_end()
    assert (world.status["phase"], world.status["restarts"]) == ("Failed", 0)
    assert conditions(world)["Failed"] == ("True", how.value)


async def test_restarts_without_progress_are_limited():
    world = await Drive(World(fails(set(range(1, 20)), 8, ExitClass.OUT_OF_MEMORY))).to_the_end()
    assert world.status["phase"] == "Failed"
    assert conditions(world)["Failed"] == ("True", "OutOfMemory")
    assert world.status["restarts"] == 3


async def test_an_edit_of_training_goes_on_from_the_newest_checkpoint():
    drive = Drive(World(healthy))
    await drive.until(lambda world: world.status.get("progress", {}).get("step", 0) >= 12)
    drive.world.edit(training=raw_spec()["training"] | {"learningRate": 5e-6})
    world = await drive.to_the_end()
    assert (world.status["attempt"]["number"], world.status["restarts"]) == (2, 0)
    assert world.attempts[2].config.overrides["actor_rollout_ref.actor.optim.lr"] == 5e-6
    assert "SpecChanged" in reasons(world)


async def test_an_edit_of_guardrails_acts_at_once():
    drive = Drive(World(runs_away(18), spec=GUARDED | {"guardrails": []}))
    await drive.until(lambda world: world.status.get("progress", {}).get("step", 0) >= 25)
    drive.world.edit(guardrails=[raw_guardrail()])
    world = await drive.to_the_end()
    assert (world.status["rollbacks"], world.status["attempt"]["number"]) == (1, 2)


async def test_a_refused_edit_leaves_the_last_accepted_spec_in_force():
    drive = Drive(World(healthy))
    await drive.until(lambda world: world.status.get("progress", {}).get("step", 0) >= 5)
    drive.world.edit(guardrails=[raw_guardrail(conditions=[{"metric": "nosuch", "above": 1.0}])])
    await drive.until(lambda world: conditions(world)["Accepted"] == ("False", "InvalidSpec"))
    world = await drive.to_the_end()
    assert (world.status["phase"], world.status["attempt"]["number"]) == ("Succeeded", 1)


async def test_an_accepted_spec_that_a_later_operator_cannot_read_is_told_and_mended_by_an_edit():
    drive = Drive(World(healthy))
    await drive.until(lambda world: world.status.get("progress", {}).get("step", 0) >= 5)
    (revision,) = drive.world.revisions.values()
    revision["training"]["miniBatchSize"] = "many"
    drive.world.edit(guardrails=[raw_guardrail(conditions=[{"metric": "nosuch", "above": 1.0}])])
    drive.restart()
    await drive.until(lambda world: conditions(world)["Accepted"] == ("False", "InvalidSpec"))
    (message,) = [item["message"] for item in drive.world.status["conditions"] if item["type"] == "Accepted"]
    assert "spec.guardrails[kl]" in message
    assert "spec.training.miniBatchSize" in message
    drive.world.edit(guardrails=[raw_guardrail()])
    world = await drive.to_the_end()
    assert (world.status["phase"], world.status["attempt"]["number"]) == ("Succeeded", 1)


async def test_an_invalid_spec_creates_nothing_and_says_why():
    spec = raw_spec(guardrails=[raw_guardrail(conditions=[{"metric": "rewardMaen", "above": 1.0}])])
    drive = Drive(World(healthy, spec=spec))
    for _ in range(5):
        await drive.step()
    assert drive.world.status["phase"] == "Invalid"
    message = next(item["message"] for item in drive.world.status["conditions"] if item["type"] == "Accepted")
    assert "rewardMean" in message
    assert set(drive.world.effects) == {"write_status"}


async def test_a_missing_claim_is_named_and_waited_for():
    drive = Drive(World(healthy))
    drive.world.claim = False
    for _ in range(3):
        await drive.step()
    assert "ppojob" in drive.world.status["message"]
    assert conditions(drive.world)["ClusterReady"] == ("False", "ClaimNotFound")
    drive.world.claim = True
    assert (await drive.to_the_end()).status["phase"] == "Succeeded"


async def test_a_damaged_checkpoint_is_passed_over():
    drive = Drive(World(fails({1}, 13, ExitClass.COMMUNICATION)))
    await drive.until(lambda world: CheckpointRef(attempt=1, step=10) in world.checkpoints)
    drive.world.checkpoints[CheckpointRef(attempt=1, step=10)] = "actor/model.pt is missing"
    world = await drive.to_the_end()
    assert world.status["attempt"]["resume"] == {"attempt": 1, "step": 5}


async def test_time_to_live_deletes_the_job():
    drive = Drive(World(healthy, spec=raw_spec(ttlSecondsAfterFinished=60)))
    await drive.to_the_end()
    finished = drive.world.now
    while drive.world.job is not None:
        await drive.step()
    assert (drive.world.now - finished).total_seconds() >= 60


# ---- guardrails that pause or fail --------------------------------------------------------------------------------


def suspended(world: World) -> bool:
    return world.status.get("phase") == "Suspended"


def released(world: World) -> bool:
    return bool(world.status["pausedBy"].get("released", False))


def acting(action: str, **more: object) -> dict[str, object]:
    return GUARDED | {"guardrails": [raw_guardrail(action=action)]} | more


async def test_a_guardrail_that_fails_ends_the_job():
    world = await Drive(World(runs_away(18), spec=acting("Fail"))).to_the_end()
    assert (world.status["phase"], world.status["rollbacks"]) == ("Failed", 0)
    assert conditions(world)["Failed"] == ("True", "GuardrailBreached")
    assert not world.clusters


async def test_a_guardrail_that_pauses_saves_and_waits_for_a_person():
    drive = Drive(World(runs_away(18), spec=acting("Pause")))
    world = await drive.until(suspended)
    assert not world.clusters
    assert world.attempts[1].command is not None
    assert world.attempts[1].command.save
    assert (world.status["pausedBy"]["guardrail"], world.status["pausedBy"]["step"]) == ("kl", 20)
    for _ in range(20):
        await drive.step(at_most=3600)
    assert world.status["phase"] == "Suspended"
    assert "spec.suspend" in world.status["message"]
    assert "kl was 0.9" in world.status["message"]
    assert reasons(world).count("Pausing") == 1
    assert world.status["attempts"][-1]["result"] == "Paused"


async def test_a_person_ends_a_pause_by_suspending_and_resuming():
    drive = Drive(World(runs_away(18), spec=acting("Pause")))
    world = await drive.until(suspended)
    stopped_at = world.attempts[1].step
    world.edit(suspend=True, guardrails=[])
    await drive.until(released)
    world.edit(suspend=False)
    await drive.to_the_end()
    assert (world.status["phase"], world.status["attempt"]["number"]) == ("Succeeded", 2)
    assert world.status["attempt"]["resume"] == {"attempt": 1, "step": stopped_at}
    assert "pausedBy" not in world.status


async def test_a_pause_that_a_person_ended_begins_anew_only_with_new_rows():
    drive = Drive(World(runs_away(18), spec=acting("Pause")))
    world = await drive.until(suspended)
    world.edit(suspend=True)
    await drive.until(released)
    world.edit(suspend=False)
    await drive.until(lambda world: 2 in world.attempts and suspended(world))
    assert world.status["pausedBy"]["attempt"] == 2
    assert not world.status["pausedBy"].get("released", False)


@pytest.mark.parametrize("action", ["Rollback", "Pause", "Fail"])
async def test_a_dry_run_of_any_action_changes_nothing(action):
    spec = GUARDED | {"guardrails": [raw_guardrail(action=action, dryRun=True)]}
    world = await Drive(World(runs_away(18), spec=spec)).to_the_end()
    assert (world.status["phase"], world.status["attempt"]["number"]) == ("Succeeded", 1)
    assert reasons(world).count(f"{action}DryRun") == 1
    (told,) = [item for item in world.status["guardrails"] if item["name"] == "kl"]
    assert (told["verdict"], told["action"], told["dryRun"]) == ("Breached", action, True)


async def test_the_status_tells_each_guardrail_with_values_and_bounds():
    world = await Drive(World(healthy, spec=GUARDED)).to_the_end()
    told = {item["name"]: item for item in world.status["guardrails"]}
    assert set(told) == {
        "kl", "NonFinite-gradient", "NonFinite-gradients", "NonFinite-reward", "RewardFunctionFailing-some",
        "RewardFunctionFailing-many",
    }  # fmt: skip
    assert told["kl"]["conditions"] == [{"figure": "kl", "value": "0.05", "bad": "above 0.2"}]
    assert (told["kl"]["bound"], told["kl"]["failing"], told["kl"]["step"]) == ("3 steps on end", 0, 30)


# ---- rollbacks that do not help -----------------------------------------------------------------------------------


async def test_the_same_guardrail_soon_after_a_rollback_goes_back_further():
    adjust = [{"parameter": "LearningRate", "multiply": 0.9}]
    world = await Drive(
        World(runs_away(28, until_below=0.0), spec=GUARDED | {"rollback": {"adjust": adjust}})
    ).to_the_end()
    starts = [attempt.config.resume.checkpoint.step for attempt in world.attempts.values() if attempt.config.resume]
    assert starts == [20, 15, 10]


async def test_with_no_healthy_steps_asked_for_the_newest_checkpoint_serves_again():
    rollback = {"adjust": [{"parameter": "LearningRate", "multiply": 0.9}], "minHealthySteps": 0}
    world = await Drive(World(runs_away(28, until_below=0.0), spec=GUARDED | {"rollback": rollback})).to_the_end()
    starts = {attempt.config.resume.checkpoint.step for attempt in world.attempts.values() if attempt.config.resume}
    assert starts == {20}


async def test_exhausted_rollbacks_can_pause_and_a_person_gives_new_ones():
    rollback = {"limit": 1, "onExhausted": "Pause", "adjust": [{"parameter": "LearningRate", "multiply": 0.9}]}
    drive = Drive(World(runs_away(18, until_below=1e-5), spec=GUARDED | {"rollback": rollback}))
    world = await drive.until(suspended)
    assert (world.status["pausedBy"]["reason"], world.status["rollbacks"]) == ("RollbacksExhausted", 1)
    training = GUARDED["training"] | {"learningRate": 1e-6}
    world.edit(suspend=True, training=training)
    await drive.until(released)
    assert world.status["rollbacksSinceProgress"] == 0
    world.edit(suspend=False)
    await drive.to_the_end()
    assert (world.status["phase"], world.status["rollbacks"]) == ("Succeeded", 2)
