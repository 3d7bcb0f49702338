"""What a decision about the job writes into the status, word for word: `tests/unit/controller` has the stories."""

import pytest
from tests.support.builders import NOW
from tests.support.observations import attempt
from tests.support.transitions import ACCEPTED, EARLIER, POINT, changed, intent

from ppojob_contract.outcomes import ExitClass
from ppojob_operator.api.v1alpha1.stage_status import StageName, StagePhase, StageStatus
from ppojob_operator.api.v1alpha1.status import (
    IntentKind,
    PausedBy,
    RollbackMark,
)
from ppojob_operator.domain.decisions import (
    AskToStop,
    Begin,
    CloseStage,
    Finish,
    RollBackInPlace,
    Settle,
    StartTrial,
    Wait,
)
from ppojob_operator.domain.hot import command
from ppojob_operator.domain.pipeline.again import TAKEN_UP, asked_for
from ppojob_operator.domain.requested import REQUESTED
from ppojob_operator.domain.targets import UNLOADABLE


@pytest.mark.parametrize("decision", [Wait(reason="Training"), AskToStop(attempt=1, command_id="i", save=True)])
def test_what_only_waits_leaves_no_trace(decision):
    assert changed(decision, attempt=attempt()) == {}


TELL = RollBackInPlace(attempt=1, command=command(intent(resume=POINT, next_attempt=2)))


@pytest.mark.parametrize(
    ("decision", "field"),
    [(AskToStop(attempt=1, command_id="i", save=True), "stop_requested"), (TELL, "commanded")],
)
def test_the_first_time_that_the_trainer_is_told_is_kept(decision, field):
    now = intent()
    assert changed(decision, intent=now) == {"intent": now.model_copy(update={field: NOW})}
    assert changed(decision, intent=intent(**{field: EARLIER})) == {}
    assert changed(decision) == {}


STAGE = StageStatus(name=StageName.EVALUATE, phase=StagePhase.RUNNING, created=EARLIER)
STOPPED = STAGE.model_copy(update={"phase": StagePhase.STOPPED, "ended": NOW})


def test_nothing_is_intended_any_more_where_a_job_rests_or_has_ended():
    assert changed(Settle(), intent=intent(), stages=[STAGE]) == {"intent": None, "stages": [STOPPED]}
    end = Finish(succeeded=False, outcome=ExitClass.HANG, reason="Hang")
    assert changed(end, intent=intent(), stages=[STAGE]) == {
        "intent": None,
        "stages": [STOPPED],
        "finished": NOW,
        "outcome": ExitClass.HANG,
    }


def test_stages_are_written_too():
    failed = CloseStage(stage=StageName.EVALUATE, key="k", phase=StagePhase.FAILED, result="Hang", message="why")
    assert list(changed(failed, stages=[STAGE])) == ["stages"]
    assert list(changed(StartTrial(run=1, spec={}))) == ["stages"]


def test_a_rollback_is_counted_and_its_mark_never_goes_back():
    new = intent(guardrail="kl", step=17, resume=POINT)
    counts = {"rollbacks": 3, "rollbacks_since_progress": 1, "restarts_since_progress": 2, "restart_mark": 15}
    expected = {
        "intent": new,
        "rollbacks": 4,
        "rollbacks_since_progress": 2,
        "rollback_mark": 17,
        "restarts_since_progress": 0,
        "restart_mark": 10,
        "last_rollback": RollbackMark(guardrail="kl", target=POINT),
    }
    assert changed(Begin(intent=new), **counts) == expected
    farther = changed(Begin(intent=new), **counts, rollback_mark=18)
    assert farther == {name: value for name, value in expected.items() if name != "rollback_mark"}


@pytest.mark.parametrize("fields", [{"guardrail": "kl"}, {"resume": POINT}])
def test_a_rollback_is_marked_by_its_guardrail_and_its_checkpoint(fields):
    mark = RollbackMark(guardrail="kl", target=POINT)
    found = changed(Begin(intent=intent(**fields)), last_rollback=mark, restart_mark=7)
    assert found["last_rollback"] is None
    assert found["restart_mark"] == (10 if "resume" in fields else 0)


def test_a_pause_by_a_guardrail_says_why():
    new = intent(IntentKind.SUSPEND, guardrail="kl", step=17)
    paused = PausedBy(
        guardrail="kl", reason="GuardrailBreached", message="kl is bad", attempt=1, step=17, since=EARLIER
    )
    assert changed(Begin(intent=new), attempt=attempt()) == {"intent": new, "paused_by": paused}
    early = paused.model_copy(update={"attempt": 0})
    assert changed(Begin(intent=new)) == {"intent": new, "paused_by": early}
    by_hand = intent(IntentKind.SUSPEND)
    assert changed(Begin(intent=by_hand), attempt=attempt()) == {"intent": by_hand}


def test_a_restart_by_hand_counts_anew():
    new = intent(IntentKind.SPEC_CHANGE, reason=REQUESTED)
    counts = {"rollbacks_since_progress": 2, "restarts_since_progress": 3}
    assert changed(Begin(intent=new), **counts) == {
        "intent": new,
        "rollbacks_since_progress": 0,
        "restarts_since_progress": 0,
    }
    edited = intent(IntentKind.SPEC_CHANGE, reason="SpecChanged")
    assert changed(Begin(intent=edited), **counts) == {"intent": edited}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        # no farther than the restart before: one more of the same
        ({"attempt": attempt(last_step=12)}, {"restarts": 6, "restarts_since_progress": 3}),
        ({"attempt": attempt(last_step=3)}, {"restarts": 6, "restarts_since_progress": 3}),
        ({"attempt": attempt()}, {"restarts": 6, "restarts_since_progress": 3}),
        ({}, {"restarts": 6, "restarts_since_progress": 3}),
        # farther: the first since
        ({"attempt": attempt(last_step=13)}, {"restarts": 6, "restarts_since_progress": 1, "restart_mark": 13}),
        ({"restart_mark": 0}, {"restarts": 6, "restarts_since_progress": 3}),
        ({"attempt": attempt(), "restart_mark": 0}, {"restarts": 6, "restarts_since_progress": 3}),
        ({"attempt": attempt(last_step=1), "restart_mark": 0}, {"restarts": 6, "restart_mark": 1}),
    ],
)
def test_a_restart_is_counted_where_it_made_no_progress(fields, expected):
    new = intent(IntentKind.RESTART, reason="Hang")
    counts = {"restarts": 5, "restarts_since_progress": 2, "restart_mark": 12} | fields
    if expected.get("restart_mark") == 1:
        counts["restarts_since_progress"] = 1
    assert changed(Begin(intent=new), **counts) == {"intent": new} | expected


def test_a_checkpoint_that_cannot_be_loaded_is_no_failure_of_the_run():
    new = intent(IntentKind.RESTART, reason=UNLOADABLE)
    assert changed(Begin(intent=new), restarts=5, restarts_since_progress=2) == {"intent": new}


def test_a_job_that_fails_after_training_remembers_what_it_was_asked_for():
    assert ACCEPTED is not None
    new = intent(IntentKind.FAIL, reason="EvaluationFailed", message="why")
    failed = STAGE.model_copy(
        update={"phase": StagePhase.FAILED, "result": "EvaluationFailed", "message": "why", "ended": EARLIER}
    )
    done = {"intent": intent(IntentKind.COMPLETE), "stages": [STAGE]}
    asked = asked_for(ACCEPTED.spec)
    assert changed(Begin(intent=new), **done) == {"intent": new, "stages": [failed], "failed_after_training": asked}
    for before in (None, intent(IntentKind.RESTART)):
        assert changed(Begin(intent=new), intent=before, stages=[STAGE]) == {"intent": new, "stages": [failed]}
    other = intent(IntentKind.RESTART, reason="Hang")
    assert "failed_after_training" not in changed(Begin(intent=other), **done)


def test_a_job_that_is_taken_up_again_has_not_ended():
    assert ACCEPTED is not None
    new = intent(IntentKind.COMPLETE, reason=TAKEN_UP)
    ended = {"finished": EARLIER, "outcome": ExitClass.HANG, "failed_after_training": asked_for(ACCEPTED.spec)}
    assert changed(Begin(intent=new), **ended) == {
        "intent": new,
        "finished": None,
        "outcome": None,
        "failed_after_training": None,
    }
    first = intent(IntentKind.COMPLETE, reason="TrainingComplete")
    assert changed(Begin(intent=first), **ended) == {"intent": first}
