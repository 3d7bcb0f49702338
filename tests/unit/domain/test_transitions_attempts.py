"""What the end and the beginning of an attempt write into the status, word for word."""

from typing import Any

import pytest
from tests.support.builders import NOW
from tests.support.observations import attempt, observation
from tests.support.transitions import (
    ACCEPTED,
    ADJUSTED,
    DATA,
    EARLIER,
    LATER,
    POINT,
    SPEC,
    after,
    changed,
    intent,
    running,
)

from ppojob_contract.outcomes import ExitClass
from ppojob_operator.api.v1alpha1.status import (
    IntentKind,
    PPOJobStatus,
    ResumePoint,
    ResumeSource,
    RollbackPath,
)
from ppojob_operator.domain.decisions import (
    CloseAttempt,
    CreateCluster,
    GoCold,
    StartAttempt,
    SwitchAttempt,
)
from ppojob_operator.domain.transitions import MAX_HISTORY, decided


@pytest.mark.parametrize(
    ("now", "outcome", "result"),
    [
        (intent(IntentKind.ROLLBACK), None, "RolledBack"),
        (intent(IntentKind.SUSPEND), None, "Suspended"),
        (intent(IntentKind.SUSPEND, guardrail="kl"), None, "Paused"),
        (intent(IntentKind.ROLLBACK, guardrail="kl"), None, "RolledBack"),
        (intent(IntentKind.SPEC_CHANGE), ExitClass.HANG, "SpecChanged"),
        (intent(IntentKind.RESTART, reason="Hang"), ExitClass.OUT_OF_MEMORY, "Hang"),
        (intent(IntentKind.RESTART, reason="H" * 70), None, "H" * 64),
        (intent(IntentKind.COMPLETE), ExitClass.SUCCEEDED, "Succeeded"),
        (intent(IntentKind.FAIL), None, "Unknown"),
        (None, ExitClass.HANG, "Hang"),
        (None, None, "Unknown"),
    ],
)
def test_an_attempt_ends_with_what_it_was_ended_for(now, outcome, result):
    ended = attempt(ended=NOW, result=result, message="kl is bad" if now else "")
    found = changed(CloseAttempt(), attempt=attempt(), intent=now, outcome=outcome)
    assert found == {"attempt": ended, "attempts": [ended]}


def test_an_end_is_in_the_history_once_and_its_message_is_cut():
    first, again = attempt(created=EARLIER), attempt(number=2, result="OutOfMemory")
    now = intent(IntentKind.RESTART, reason="Hang", message="m" * 1030)
    found = changed(CloseAttempt(), attempt=attempt(number=2), attempts=[first, again], intent=now)
    ended = attempt(number=2, ended=NOW, result="Hang", message="m" * 1024)
    assert found == {"attempt": ended, "attempts": [first, ended]}


def test_the_history_keeps_what_led_to_the_weights():
    """Attempts 2 and 5 are the past of attempt 22; of the others the oldest is forgotten."""
    past = {5: ResumePoint(attempt=2, step=5), 22: ResumePoint(attempt=5, step=10)}
    history = [attempt(number=number, resume=past.get(number)) for number in range(2, 22)]
    found = changed(CloseAttempt(), attempt=attempt(number=22, resume=past[22]), attempts=history)
    kept = [item.number for item in found["attempts"]]
    assert kept == [2, *range(4, 23)]
    assert len(kept) == MAX_HISTORY


def test_a_cluster_is_numbered_and_not_seen_yet():
    assert ACCEPTED is not None
    before = {"cluster_number": 1, "cluster_uid": "cluster-1", "cluster_hash": "another"}
    assert changed(CreateCluster(number=2), **before) == {
        "cluster_number": 2,
        "cluster_uid": None,
        "cluster_hash": ACCEPTED.cluster_hash,
    }
    assert changed(CreateCluster(number=1), **before) == {}


def test_a_rollback_that_goes_cold_says_so():
    told = running(intent=intent(next_attempt=2, resume=POINT, path=RollbackPath.HOT, commanded=LATER))
    before, found = after(GoCold(message="the trainer has ended", number_used=False), **told)
    assert before.intent is not None
    message = "kl is bad; by a new start: the trainer has ended"
    update = {"path": RollbackPath.COLD, "message": message}
    assert found == {"intent": before.intent.model_copy(update=update)}
    burned = attempt(
        number=2,
        head_uid=None,
        job_uid=None,
        cause=IntentKind.ROLLBACK,
        resume=POINT,
        created=LATER,
        ended=NOW,
        result="Superseded",
        message="the trainer has ended",
    )
    used = GoCold(message="the trainer has ended", number_used=True)
    first = attempt(ended=EARLIER)
    assert changed(used, **told, attempts=[first]) == {
        "intent": before.intent.model_copy(update=update | {"next_attempt": 3}),
        "attempts": [first, burned],
    }


def test_a_rollback_that_goes_cold_before_it_was_told_and_with_many_words():
    long = GoCold(message="m" * 5000, number_used=True)
    found = changed(long, **running(cluster_number=4))
    assert found["intent"].message == ("kl is bad; by a new start: " + "m" * 5000)[:4096]
    (burned,) = found["attempts"]
    assert (burned.created, burned.cluster, burned.message) == (NOW, 4, "m" * 1024)


RAN = {
    "training_hash": "t",
    "data_hash": "d",
    "source": ResumeSource(path="/models/base", step=3),
}
BEGUN = {"intent": None, "outcome": None, "paused_by": None, "guardrails": []}


def switched(**fields: Any) -> Any:
    values = {"number": 2, "cause": IntentKind.ROLLBACK, "resume": POINT, "data": DATA, "created": NOW, "carried_by": 1}
    return attempt(**(RAN | values | {"data_anew": True} | fields))


def test_a_trainer_that_rolled_back_in_place_runs_the_next_attempt():
    before = running(attempt=attempt(**RAN))
    ended = attempt(**RAN, ended=NOW, result="RolledBack", message="kl is bad")
    assert changed(SwitchAttempt(number=2), **before) == BEGUN | {
        "attempt": switched(),
        "attempts": [ended],
        "adjustments": ADJUSTED,
    }


def test_a_second_rollback_in_place_is_carried_by_the_first_rayjob():
    """The attempt is closed already, and its number was taken before; the clock is that of the command."""
    now = intent(resume=POINT, next_attempt=3, data=DATA, commanded=LATER)
    first, old = attempt(**RAN), attempt(number=3, result="Superseded")
    second = attempt(**RAN, number=2, cluster=4, carried_by=1, ended=EARLIER)
    before = running(attempt=second, intent=now, attempts=[first, second, old], adjustments=ADJUSTED)
    assert changed(SwitchAttempt(number=3), **before) == BEGUN | {
        "attempt": switched(number=3, cluster=4, created=LATER),
        "attempts": [first, second],
        "adjustments": [],
    }


START = StartAttempt(
    number=2,
    cluster=3,
    head_uid="head-3",
    resume=POINT,
    source=ResumeSource(path="/models/base", step=3),
    adjustments=tuple(ADJUSTED),
    data=DATA,
)


def test_an_attempt_that_starts_forgets_what_the_one_before_it_came_to():
    assert ACCEPTED is not None
    first = attempt(data_hash=ACCEPTED.data_hash, ended=EARLIER)
    expected = attempt(
        number=2,
        cluster=3,
        head_uid="head-3",
        job_uid=None,
        cause=IntentKind.ROLLBACK,
        resume=POINT,
        source=ResumeSource(path="/models/base", step=3),
        training_hash=ACCEPTED.training_hash,
        data_hash=ACCEPTED.data_hash,
        data=DATA,
        data_anew=True,
    )
    assert changed(START, **running(attempt=first)) == BEGUN | {"attempt": expected, "adjustments": ADJUSTED}
    same = changed(START, **running(attempt=first.model_copy(update={"data": DATA})))
    assert same["attempt"] == expected.model_copy(update={"data_anew": False})


def test_the_first_attempt_has_no_cause_and_a_start_counts_once():
    found = changed(StartAttempt(number=1, cluster=1, head_uid="head-1", resume=None))
    assert (found["attempt"].number, found["attempt"].cause) == (1, None)
    assert changed(START, **running(attempt=attempt(number=2))) == {}


def test_a_restart_that_was_asked_for_is_fulfilled_where_it_says():
    spec = SPEC | {"restart": {"nonce": "again", "fromStep": 10}}
    before = PPOJobStatus(**running(observed_restart_nonce="before"))
    for step, nonce in ((10, "again"), (15, "before")):
        start = StartAttempt(number=2, cluster=1, head_uid="head-1", resume=ResumePoint(attempt=1, step=step))
        assert decided(observation(before, spec=spec), before, start).observed_restart_nonce == nonce
