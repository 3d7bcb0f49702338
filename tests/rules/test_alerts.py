"""Each alert: one story in which it fires, at an exact time, and one that comes close to it and keeps it silent.

Two stories are real runs (`recorded/`): the demo's example, and one whose only rollback is used up at once.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.promtool import NAMES, Fires, Values, World, check, name

from ppojob_contract import metrics as m
from ppojob_operator.codegen.monitoring import queries as q

ROLLBACK, EXHAUSTED = "rollback", "exhausted"
OF_JOB = {"namespace": "team", "ppojob": "job"}
MINUTE = 4
"""Samples in a minute."""

Story = Callable[[], tuple[World, Fires]]
Quiet = Callable[[], World]


def always(value: float, minutes: int = 60) -> Values:
    return [value] * (minutes * MINUTE + 1)


def running(minutes: int = 60) -> dict[str, Values]:
    return {name(m.PHASE, phase="Running"): always(1, minutes)}


def of_run(run: str, **labels: str) -> dict[str, str]:
    return {"namespace": "recorded", "ppojob": run} | labels


def figure(figure_name: str, values: Values) -> dict[str, Values]:
    metric, labels = m.of_figure(figure_name)
    return {name(metric, **labels): values}


# ---- guardrails and rollbacks: real runs ----


def guardrail_breached() -> tuple[World, Fires]:
    """The rollback is done in place within seconds; that it was breached is told for five minutes."""
    world = World.recorded(ROLLBACK)
    at = world.first(m.BREACHES, 1, guardrail="kl")
    return world, Fires(at, "recorded/rollback: guardrail kl is breached", of_run(ROLLBACK, guardrail="kl"))


def guardrail_that_only_warns_is_breached() -> tuple[World, Fires]:
    """An operator that was not there when it began."""
    values = {
        name(m.VERDICT, guardrail="kl"): [0.0] * MINUTE + [1.0] * 100,
        name(m.BREACHES, guardrail="kl"): always(0),
    }
    return World(running() | values), Fires(60, "team/job: guardrail kl is breached", OF_JOB | {"guardrail": "kl"})


def guardrail_healthy_until_the_breach() -> World:
    world = World.recorded(ROLLBACK)
    return world.frozen_after(world.first(m.BREACHES, 1, guardrail="kl") - world.interval, lasting=600)


def guardrail_inconclusive() -> World:
    return World(running() | {name(m.VERDICT, guardrail="kl"): always(2), name(m.BREACHES, guardrail="kl"): always(3)})


def rolled_back() -> tuple[World, Fires]:
    world = World.recorded(ROLLBACK)
    at = world.first(m.JOB_ROLLBACKS, 1)
    return world, Fires(at, "recorded/rollback was rolled back; in the last 15 minutes: 1", of_run(ROLLBACK))


def rolled_back_long_ago_and_told_by_another_operator() -> World:
    """The next operator begins with the count at which the last one ended."""
    first, second = ([1.0] * 40 + [None] * 40, [None] * 50 + [1.0] * 30)
    return World({name(m.JOB_ROLLBACKS, pod="a"): first, name(m.JOB_ROLLBACKS, pod="b"): second})


def rollbacks_exhausted() -> tuple[World, Fires]:
    world = World.recorded(EXHAUSTED)
    labels = {"condition": "Failed", "status": "True", "reason": "RollbacksExhausted"}
    at = world.first(m.CONDITION, 1, **labels)
    return world, Fires(
        at, "recorded/exhausted has used up its rollbacks", of_run(EXHAUSTED, reason="RollbacksExhausted")
    )


def exhausted_and_paused() -> tuple[World, Fires]:
    world = World({name(m.PAUSED, reason="RollbacksExhausted"): [None] * MINUTE + [*always(1, 5)]})
    return world, Fires(60, "team/job has used up its rollbacks", OF_JOB | {"reason": "RollbacksExhausted"})


def paused() -> tuple[World, Fires]:
    world = World({name(m.PAUSED, reason="GuardrailBreached"): [None] * MINUTE + [*always(1, 5)]})
    labels = OF_JOB | {"reason": "GuardrailBreached"}
    return world, Fires(60, "team/job is paused and waits for somebody: GuardrailBreached", labels)


def paused_for_another_reason() -> World:
    return paused()[0]


def suspended_by_a_person() -> World:
    return World({name(m.PHASE, phase="Suspended"): always(1)})


def failed() -> tuple[World, Fires]:
    condition = {"condition": "Failed", "status": "True", "reason": "OutOfMemory"}
    world = World({name(m.CONDITION, **condition): [None] * MINUTE + [*always(1, 5)]})
    return world, Fires(60, "team/job has failed: OutOfMemory", OF_JOB | {"reason": "OutOfMemory"})


def whole_rollback_run() -> World:
    return World.recorded(ROLLBACK)


def whole_exhausted_run() -> World:
    return World.recorded(EXHAUSTED)


# ---- progress ----


def no_step() -> tuple[World, Fires]:
    """The recorded run, standing still soon after its first steps: its driver hangs."""
    recorded = World.recorded(ROLLBACK)
    at = recorded.first(m.PHASE, 1, phase="Running") + 2 * recorded.interval
    world = recorded.frozen_after(at, lasting=1800)
    last_step = world.values(m.LAST_STEP_TIME)[at // world.interval]
    assert last_step is not None
    silent = int((last_step + 600) // world.interval + 1) * world.interval
    silence = f"{int((silent + 300 - last_step) // 60)}m {int((silent + 300 - last_step) % 60)}s"
    return world, Fires(silent + 300, f"recorded/rollback: no step for {silence}", of_run(ROLLBACK))


def slow_steps() -> World:
    """Twelve minutes of silence, where a step takes two."""
    return World(
        running(12)
        | {
            name(m.LAST_STEP_TIME): always(0, 12),
            name("ppojob_step_duration_seconds_sum"): always(1200, 12),
            name("ppojob_step_duration_seconds_count"): always(10, 12),
        }
    )


def a_long_evaluation() -> World:
    """An hour after the last step, of a job that has trained them all."""
    values = {name(m.LAST_STEP_TIME): always(0), name(m.STEP): always(40), name(m.TARGET_STEPS): always(40)}
    return World(running() | values)


def not_judged() -> tuple[World, Fires]:
    condition = {"condition": "Healthy", "status": "Unknown", "reason": "Inconclusive"}
    world = World({name(m.CONDITION, **condition): [None] * MINUTE + [*always(1, 20)]})
    return world, Fires(660, "team/job is not guarded: Inconclusive", OF_JOB | {"reason": "Inconclusive"})


def waiting_for_the_first_step() -> World:
    return World({name(m.CONDITION, condition="Healthy", status="Unknown", reason="Waiting"): always(1)})


# ---- checkpoints ----


def checkpoints(confirmed: Values | None = None, complete: Values | None = None) -> dict[str, Values]:
    """A step every 15 seconds; saves every 10, confirmed by 5 behind: confirmed at the latest every 15."""
    series = running() | {
        name(m.STEP): [float(n) for n in range(60 * MINUTE + 1)],
        name(m.CHECKPOINT_INTERVAL): always(10),
        name(m.CONFIRMATION_WINDOW): always(5),
    }
    if confirmed is not None:
        series[name(m.CHECKPOINT_STEP, state="Confirmed")] = confirmed
    if complete is not None:
        series[name(m.CHECKPOINT_STEP, state="Complete")] = complete
    return series


SAVED = [float(n // 10 * 10) for n in range(60 * MINUTE + 1)]


def nothing_confirmed() -> tuple[World, Fires]:
    """From step 46 on more than three times 15 steps; five minutes later it is at step 66."""
    return World(checkpoints(complete=SAVED)), Fires(
        (46 + 20) * 15, "team/job: 66 steps since the newest confirmed checkpoint", OF_JOB
    )


def confirmed_in_time() -> World:
    return World(checkpoints(complete=SAVED, confirmed=[float(max(0, (n - 5) // 10 * 10)) for n in range(241)]))


def save_fails() -> tuple[World, Fires]:
    """The checkpoint of step 30 is left without a manifest."""
    broken = checkpoints(complete=[min(step, 20.0) for step in SAVED], confirmed=SAVED)
    broken[name(m.CHECKPOINT_STEP, state="Unusable")] = [None] * 31 + [30.0] * 60
    return World(broken), Fires(
        (31 + 20) * 15, "team/job: 31 steps since the last complete checkpoint, saving fails", OF_JOB
    )


def save_overdue() -> tuple[World, Fires]:
    """Nothing is written behind step 20: two intervals are over at step 41."""
    world = World(checkpoints(complete=[min(step, 20.0) for step in SAVED], confirmed=SAVED))
    return world, Fires((41 + 20) * 15, "team/job: 41 steps since the last complete checkpoint, saving fails", OF_JOB)


def old_attempt_left_an_unusable_one() -> World:
    world = checkpoints(complete=SAVED, confirmed=SAVED)
    world[name(m.CHECKPOINT_STEP, state="Unusable")] = [None] * 10 + [10.0] * 200
    return World(world)


# ---- figures ----


def reward_collapse() -> tuple[World, Fires]:
    """From 0.8 to 0.2 at minute 30: the mean of ten minutes is below 0.4 with the 27th of its 40 samples."""
    values = [0.8] * (30 * MINUTE) + [0.2] * (30 * MINUTE)
    at = 30 * 60 + 26 * 15
    return World(running() | figure("rewardMean", values)), Fires(
        at + 600, "team/job: mean reward 0.2 is below half of its best", OF_JOB
    )


def reward_sinks_a_little() -> World:
    return World(running() | figure("rewardMean", [0.8] * (30 * MINUTE) + [0.45] * (30 * MINUTE)))


def kl_high() -> tuple[World, Fires]:
    """The real run, standing still with the first KL above the bound: as if no guardrail had acted."""
    recorded = World.recorded(ROLLBACK)
    values = recorded.values(m.of_figure("kl")[0])
    index, value = next((n, value) for n, value in enumerate(values) if value and value > q.KL_HIGH)
    at = index * recorded.interval
    summary = f"recorded/rollback: KL to the reference is {value:.3g}"
    return recorded.frozen_after(at, lasting=600), Fires(at + 300, summary, of_run(ROLLBACK))


def kl_high_while_it_is_taken_back() -> World:
    """The real run in slow motion: KL stays where it was until the next attempt's first step."""
    return World.recorded(ROLLBACK, slower=12)


def device_memory_high() -> tuple[World, Fires]:
    world = World(running() | figure("deviceMemoryFraction", [0.5] * MINUTE + [0.855] * 60))
    return world, Fires(360, "team/job: the trainer uses 85.5% of the devices' memory", OF_JOB)


def device_memory_at_the_bound() -> World:
    return World(running() | figure("deviceMemoryFraction", always(0.8)))


def generation_slow() -> tuple[World, Fires]:
    world = World(running() | {name(m.STAGE_DURATION, stage="gen"): [19.0] * MINUTE + [25.0] * 60})
    return world, Fires(360, "team/job: generation takes 25 s a step", OF_JOB)


def one_slow_generation_in_five_minutes() -> World:
    values = [60.0 if n % 20 == 0 else 10.0 for n in range(240)]
    stages = {name(m.STAGE_DURATION, stage="gen"): values, name(m.STAGE_DURATION, stage="ref"): always(90)}
    return World(running() | stages)


# ---- the operator ----


def stuck() -> tuple[World, Fires]:
    world = World({name(m.PHASE, phase="Provisioning"): always(1)})
    summary = "team/job has been Provisioning for half an hour"
    return world, Fires(1800, summary, OF_JOB | {"phase": "Provisioning"})


def starts_just_in_time() -> World:
    provisioning: Values = [*[1.0] * (29 * MINUTE), None]
    return World(
        {name(m.PHASE, phase="Provisioning"): provisioning, name(m.PHASE, phase="Running"): [None] * 116 + [1.0] * 100}
    )


def operator_down() -> tuple[World, Fires]:
    """Its pod goes away at minute 10."""
    world = World({name(m.LEADER, pod="a"): [*always(1, 10), *[None] * (20 * MINUTE)]})
    return world, Fires(10 * 60 + 15 + 300, "no PPOJob operator leads: PPOJobs are not looked after")


def nobody_leads() -> tuple[World, Fires]:
    world = World({name(m.LEADER, pod="a"): always(0), name(m.LEADER, pod="b"): always(0)})
    return world, Fires(300, "no PPOJob operator leads: PPOJobs are not looked after")


def another_operator_takes_over() -> World:
    first, second = ([*[1.0] * 40, *[None] * 60], [*[0.0] * 55, *[1.0] * 45])
    return World({name(m.LEADER, pod="a"): first, name(m.LEADER, pod="b"): second})


def passes_fail() -> tuple[World, Fires]:
    """One every 15 seconds: the sixth comes after 90 seconds."""
    errors = {name(m.RECONCILE_ERRORS, error="ClusterUnavailable"): [float(n) for n in range(30 * MINUTE)]}
    labels = OF_JOB | {"error": "ClusterUnavailable"}
    return World(errors), Fires(90 + 300, "team/job: 26 passes failed in ten minutes (ClusterUnavailable)", labels)


def a_few_conflicts() -> World:
    return World({name(m.RECONCILE_ERRORS, error="Conflict"): [*[0.0] * 40, *[4.0] * 200]})


FIRING: dict[str, list[Story]] = {
    "PPOJobGuardrailBreached": [guardrail_breached, guardrail_that_only_warns_is_breached],
    "PPOJobRolledBack": [rolled_back],
    "PPOJobRollbacksExhausted": [rollbacks_exhausted, exhausted_and_paused],
    "PPOJobPaused": [paused],
    "PPOJobFailed": [failed],
    "PPOJobNoStep": [no_step],
    "PPOJobNotJudged": [not_judged],
    "PPOJobNoConfirmedCheckpoint": [nothing_confirmed],
    "PPOJobCheckpointSaveFailing": [save_fails, save_overdue],
    "PPOJobRewardCollapse": [reward_collapse],
    "PPOJobKLHigh": [kl_high],
    "PPOJobDeviceMemoryHigh": [device_memory_high],
    "PPOJobGenerationSlow": [generation_slow],
    "PPOJobStuck": [stuck],
    "PPOJobReconcileErrors": [passes_fail],
    "PPOJobOperatorDown": [operator_down, nobody_leads],
}
SILENT: dict[str, list[Quiet]] = {
    "PPOJobGuardrailBreached": [guardrail_healthy_until_the_breach, guardrail_inconclusive],
    "PPOJobRolledBack": [rolled_back_long_ago_and_told_by_another_operator],
    "PPOJobRollbacksExhausted": [whole_rollback_run, paused_for_another_reason],
    "PPOJobPaused": [suspended_by_a_person, whole_rollback_run],
    "PPOJobFailed": [whole_rollback_run, whole_exhausted_run],
    "PPOJobNoStep": [slow_steps, a_long_evaluation, whole_rollback_run],
    "PPOJobNotJudged": [waiting_for_the_first_step],
    "PPOJobNoConfirmedCheckpoint": [confirmed_in_time, whole_rollback_run],
    "PPOJobCheckpointSaveFailing": [old_attempt_left_an_unusable_one, whole_rollback_run],
    "PPOJobRewardCollapse": [reward_sinks_a_little, whole_rollback_run],
    "PPOJobKLHigh": [kl_high_while_it_is_taken_back, whole_rollback_run],
    "PPOJobDeviceMemoryHigh": [device_memory_at_the_bound],
    "PPOJobGenerationSlow": [one_slow_generation_in_five_minutes, whole_rollback_run],
    "PPOJobStuck": [starts_just_in_time, whole_rollback_run],
    "PPOJobReconcileErrors": [a_few_conflicts, whole_rollback_run],
    "PPOJobOperatorDown": [another_operator_takes_over, whole_rollback_run],
}


def cases(table: dict[str, list[Any]]) -> list[Any]:
    return [pytest.param(alert, story, id=f"{alert}-{story.__name__}") for alert in table for story in table[alert]]


def test_every_alert_has_both() -> None:
    print("\n| alert | fires in | silent in |\n| --- | --- | --- |")
    for alert in NAMES:
        fires, silent = (", ".join(story.__name__ for story in table[alert]) for table in (FIRING, SILENT))
        print(f"| {alert} | {fires} | {silent} |")
    assert set(FIRING) == set(SILENT) == set(NAMES)


@pytest.mark.parametrize(("alert", "story"), cases(FIRING))
def test_it_fires_at_this_time_and_not_before(alert: str, story: Story, tmp_path: Path) -> None:
    world, fires = story()
    check(tmp_path, world, {alert: fires}, [])


@pytest.mark.parametrize(("alert", "story"), cases(SILENT))
def test_it_keeps_silent(alert: str, story: Quiet, tmp_path: Path) -> None:
    check(tmp_path, story(), {}, [alert])
