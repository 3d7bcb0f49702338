"""What is accepted and probably not meant."""

from typing import Any

import pytest
from tests.support.builders import raw_guardrail, raw_spec

from ppojob_operator.domain.acceptance import judge


def warnings(**blocks: Any) -> dict[str, str]:
    _, found, warned = judge(raw_spec(**blocks))
    assert not found
    return {warning.field: warning.message for warning in warned}


def adjusting(**fields: Any) -> dict[str, Any]:
    return {"adjust": [{"parameter": "LearningRate", "multiply": 0.5} | fields]}


def guardrail(**fields: Any) -> dict[str, Any]:
    """One that leaves time for a checkpoint to be Confirmed."""
    return raw_guardrail(**{"afterStep": 15} | fields)


def test_warnings() -> None:
    assert "unguarded" in warnings()["spec.guardrails"]
    assert "unguarded" in warnings(guardrails=[guardrail(dryRun=True)])["spec.guardrails"]
    replay = {"data": "Replay"}
    assert "repeat itself" in warnings(guardrails=[guardrail()], rollback=replay)["spec.rollback.adjust"]
    assert "spec.rollback.adjust" not in warnings(guardrails=[guardrail()])
    assert warnings(guardrails=[guardrail()], rollback=adjusting()) == {}
    late = warnings(guardrails=[guardrail()], rollback=adjusting(), checkpoints={"everySteps": 30})
    assert "no target" in late["spec.checkpoints.everySteps"]
    binary = {"reward": {"terms": [{"name": "a", "rule": {"type": "GSM8K"}}]}}
    noisy = [guardrail(), {"name": "noise", "preset": "RewardNoise"}]
    assert "never breached" in warnings(guardrails=noisy, rollback=adjusting(), **binary)["spec.guardrails[noise]"]
    assert warnings(guardrails=noisy, rollback=adjusting()) == {}
    never = warnings(guardrails=[guardrail(afterStep=29)], rollback=adjusting())
    assert "never breached" in never["spec.guardrails[kl].afterStep"]


@pytest.mark.parametrize(("every", "after", "never"), [(10, 0, False), (10, 10, True), (11, 0, False), (15, 0, True)])
def test_validations_are_counted_where_a_guardrail_has_their_figures(every, after, never) -> None:
    training = {"totalSteps": 30, "batchSize": 16, "miniBatchSize": 8, "validateEverySteps": every}
    both = [{"metric": "kl", "above": 1}, {"metric": "validationReward", "below": 0.1}]
    found = warnings(
        training=training, guardrails=[guardrail(conditions=both, forSteps=3, afterStep=after, action="Warn")]
    )
    assert ("never breached" in found.get("spec.guardrails[kl].afterStep", "")) is never


@pytest.mark.parametrize("term", [{"model": {"path": "/models/reward"}}, {"rule": {"type": "GSM8K"}}])
@pytest.mark.parametrize("metric", ["rewardMean", "reward_term/a", "entropy"])
@pytest.mark.parametrize("how", [{"ratio": 0.5}, {"by": -1}])
def test_a_ratio_of_what_a_reward_model_gives_may_never_be_judged(term, metric, how) -> None:
    conditions = [{"metric": metric, "relativeTo": "Best", **how}]
    found = warnings(reward={"terms": [{"name": "a"} | term]}, guardrails=[guardrail(conditions=conditions)])
    warned = "by instead of ratio" in found.get("spec.guardrails[kl]", "")
    assert warned is ("model" in term and metric != "entropy" and "ratio" in how)


EARLY = "spec.guardrails[kl].afterStep"


@pytest.mark.parametrize(
    ("guardrail", "checkpoints", "said"),
    [
        ({}, {}, "can be breached from step 3 on, but nothing is Confirmed before step 15 (the first checkpoint, 10, "),
        ({"afterStep": 14}, {}, "or set afterStep to 15"),
        ({"afterStep": 15}, {}, None),
        ({"afterStep": 6, "forSteps": 7}, {"everySteps": 5, "confirmSteps": 2}, "Confirmed before step 12"),
        ({"afterStep": 7}, {"everySteps": 5, "confirmSteps": 2}, "set afterStep to 8"),
        ({"action": "Warn"}, {}, None),
        ({"action": "Pause"}, {}, None),
        ({"dryRun": True}, {}, None),
        ({"preset": "NonFinite", "conditions": None}, {}, None),
        ({}, {"resumeFrom": {"job": "other"}}, None),
    ],
)
def test_a_rollback_guardrail_that_can_be_breached_with_nothing_confirmed(
    guardrail: dict[str, Any], checkpoints: dict[str, Any], said: str | None
) -> None:
    found = warnings(guardrails=[raw_guardrail(**guardrail)], rollback=adjusting(), checkpoints=checkpoints).get(EARLY)
    assert said in found if said and found else found is said


def test_what_such_a_breach_leads_to() -> None:
    fails = warnings(guardrails=[raw_guardrail()], rollback=adjusting())[EARLY]
    pauses = warnings(guardrails=[raw_guardrail()], rollback=adjusting() | {"onExhausted": "Pause"})[EARLY]
    assert ("ends the job" in fails, "pauses the job" in pauses) == (True, True)


@pytest.mark.parametrize("steps", [14, 15])
def test_a_long_count_keeps_the_first_checkpoint_from_being_confirmed_in_time(steps: int) -> None:
    """Total 30: the first checkpoint is of step 16 here, and needs as many clean rows as the guardrail counts."""
    found = warnings(
        guardrails=[raw_guardrail(forSteps=steps)], rollback=adjusting(), checkpoints={"everySteps": 16}
    ).get("spec.checkpoints.everySteps", "")
    assert ("no target" in found) == (steps == 15)


@pytest.mark.parametrize(("every", "told"), [(29, False), (30, False), (31, True)])
@pytest.mark.parametrize("guardrails", [[], [guardrail()]])
def test_a_job_that_saves_nothing_on_its_way_hears_of_it_guarded_or_not(every, told, guardrails) -> None:
    found = warnings(guardrails=guardrails, rollback=adjusting(), checkpoints={"everySteps": every})
    assert ("nothing is saved before" in found.get("spec.checkpoints.everySteps", "")) is told


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ({"metric": "kl", "above": 1}, {"metric": "kl", "below": 0.1}, True),
        ({"metric": "kl", "below": 0.1}, {"metric": "kl", "above": 0.1}, True),
        ({"metric": "kl", "above": 0.1}, {"metric": "kl", "below": 1}, False),
        ({"metric": "kl", "above": 1}, {"metric": "entropy", "below": 0.1}, False),
        ({"metric": "kl", "above": 2, "below": 0.5}, {"metric": "kl", "below": 0.1}, False),
        ({"metric": "kl", "above": 1}, {"metric": "kl", "above": 2}, False),
    ],
)
def test_bounds_that_leave_no_value_are_refused(first, second, told) -> None:
    _, problems, _ = judge(raw_spec(guardrails=[guardrail(conditions=[first, second])]))
    assert [problem.field for problem in problems] == (["spec.guardrails[kl].conditions[1]"] if told else [])
