"""What a rollback does about the prompts, and how long that holds."""

from typing import Any

import pytest
from tests.support.builders import NOW, UID, guard, raw_spec, spec

from ppojob_contract.data_plan import DataPlan, StepRange
from ppojob_operator.api.v1alpha1.data_status import DataPlanStatus, Steps
from ppojob_operator.api.v1alpha1.status import AttemptStatus, Intent, IntentKind, PPOJobStatus, ResumePoint
from ppojob_operator.domain import data_plan
from ppojob_operator.domain.guardrails.episodes import Breach
from ppojob_operator.domain.guardrails.readings import Finding, Reading
from ppojob_operator.domain.job import AcceptedJob


def job(**blocks: Any) -> AcceptedJob:
    return AcceptedJob(namespace="team", name="job", uid=UID, generation=1, spec=spec(**blocks))


def policy(name: str) -> AcceptedJob:
    return job(rollback={"data": name})


def attempt(number: int, resume: tuple[int, int] | None = None, **fields: Any) -> AttemptStatus:
    point = ResumePoint(attempt=resume[0], step=resume[1]) if resume else None
    values = {"data_hash": job().data_hash} | fields
    return AttemptStatus(number=number, cluster=1, created=NOW, resume=point, **values)


def status(*attempts: AttemptStatus) -> PPOJobStatus:
    return PPOJobStatus(attempts=list(attempts[:-1]), attempt=attempts[-1])


def breach(first: int, step: int) -> Breach:
    reading = Reading(step, (Finding.HOLDS,), (0.9,), (None,))
    return Breach(guardrail=guard(), first_step=first, reading=reading)


def steps(attempt_number: int, first: int, last: int) -> Steps:
    return Steps(attempt=attempt_number, first=first, last=last)


def test_left_out_is_from_the_step_before_the_first_bad_row_to_the_breach():
    plan = data_plan.after_breach(status(attempt(1)), policy("SkipFailing"), breach(18, 20))
    assert plan == DataPlanStatus(skip=[steps(1, 17, 20)], incident=[steps(1, 17, 20)])


def test_there_is_no_step_before_the_first():
    assert data_plan.failing_steps(status(attempt(1)), breach(1, 3)) == [steps(1, 1, 3)]


def test_the_step_before_may_be_of_the_attempt_before():
    history = status(attempt(1), attempt(2, (1, 10)))
    assert data_plan.failing_steps(history, breach(11, 13)) == [steps(1, 10, 10), steps(2, 11, 13)]


def test_what_was_left_out_before_stays_left_out():
    before = DataPlanStatus(skip=[steps(1, 17, 20)], incident=[steps(1, 17, 20)])
    plan = data_plan.after_breach(
        status(attempt(1), attempt(2, (1, 10), data=before)), policy("SkipFailing"), breach(14, 16)
    )
    assert plan.skip == [steps(1, 17, 20), steps(2, 13, 16)]
    assert plan.incident == [steps(2, 13, 16)]


def test_replay_changes_nothing_and_reshuffle_the_order():
    before = DataPlanStatus(skip=[steps(1, 5, 6)], reshuffle=1)
    history = status(attempt(1), attempt(2, (1, 4), data=before))
    again = data_plan.after_breach(history, policy("Replay"), breach(9, 9))
    assert (again.skip, again.reshuffle, again.incident) == (before.skip, 1, [steps(2, 8, 9)])
    shuffled = data_plan.after_breach(history, policy("Reshuffle"), breach(9, 9))
    assert (shuffled.skip, shuffled.reshuffle, shuffled.incident) == (before.skip, 2, [steps(2, 8, 9)])


def test_the_list_is_bounded_and_the_newest_stay():
    before = DataPlanStatus(skip=[steps(number, 1, 2) for number in range(1, 33)])
    plan = data_plan.after_breach(status(attempt(40, data=before)), policy("SkipFailing"), breach(9, 9))
    assert len(plan.skip) == data_plan.MOST_SKIPPED
    assert plan.skip[-1] == steps(40, 8, 9)
    assert plan.skip[0].attempt == 2


def test_a_restart_goes_on_with_the_plan_and_a_rollback_with_its_own():
    mine = DataPlanStatus(skip=[steps(1, 5, 6)])
    running = status(attempt(2, (1, 4), data=mine))
    assert data_plan.next_plan(running, job()) == mine
    decided = DataPlanStatus(reshuffle=1)
    intent = Intent(id="x", kind=IntentKind.ROLLBACK, since=NOW, reason="r", attempt=2, data=decided)
    assert data_plan.next_plan(running.model_copy(update={"intent": intent}), job()) == decided
    restart = intent.model_copy(update={"kind": IntentKind.RESTART, "data": DataPlanStatus()})
    assert data_plan.next_plan(running.model_copy(update={"intent": restart}), job()) == mine
    assert data_plan.next_plan(PPOJobStatus(), job()) == DataPlanStatus()


@pytest.mark.parametrize(
    "edit",
    [
        {"data": raw_spec()["data"] | {"train": ["/data/other.parquet"]}},
        {"data": raw_spec()["data"] | {"seed": 1}},
        {"data": raw_spec()["data"] | {"shuffle": False}},
        {"data": raw_spec()["data"] | {"maxPromptLength": 100}},
        {"training": raw_spec()["training"] | {"batchSize": 32}},
    ],
)
def test_steps_of_other_data_are_not_left_out(edit):
    edited = job(**edit)
    history = status(attempt(1, data=DataPlanStatus(skip=[steps(1, 5, 6)], reshuffle=2)))
    assert data_plan.next_plan(history, edited) == DataPlanStatus(reshuffle=2)
    following = attempt(2, (1, 4), data_hash=edited.data_hash, data=DataPlanStatus(reshuffle=2))
    assert data_plan.begins_anew(history, following)


def test_the_order_goes_on_unless_it_is_another_one():
    history = status(attempt(1), attempt(2, (1, 4), data=DataPlanStatus(reshuffle=1)))
    assert not data_plan.begins_anew(history, attempt(3, None))
    assert not data_plan.begins_anew(history, attempt(3, (1, 4)))
    assert data_plan.begins_anew(history, attempt(3, (1, 4), data=DataPlanStatus(reshuffle=1)))
    assert not data_plan.begins_anew(history, attempt(3, (2, 6), data=DataPlanStatus(reshuffle=1)))
    assert not data_plan.begins_anew(history, attempt(3, (9, 4))), "not remembered"
    assert not data_plan.begins_anew(status(attempt(1, data_hash="")), attempt(2, (1, 4))), "of an earlier version"


def test_validation_and_lengths_of_responses_make_no_other_order():
    other = raw_spec()["data"] | {"validation": ["/data/v.parquet"], "maxResponseLength": 99, "validationMaxRows": 3}
    assert job(data=other).data_hash == job().data_hash


def test_the_trainer_is_told_the_same():
    decided = DataPlanStatus(skip=[steps(1, 5, 6)], reshuffle=3, incident=[steps(2, 7, 8)])
    told = data_plan.plan(decided)
    assert told == DataPlan(
        skip=(StepRange(attempt=1, first=5, last=6),),
        reshuffle=3,
        incident=(StepRange(attempt=2, first=7, last=8),),
    )
    assert DataPlan.from_json(told.to_json()) == told
