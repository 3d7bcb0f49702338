"""What a breach leads to, word for word."""

import dataclasses

import pytest
from tests.support.builders import NOW, assess, guard, raw_guardrail, raw_spec, rows
from tests.support.observations import CLUSTER, RAY_JOB, attempt, attempt_state, observation, reached
from tests.support.scripts import BAD, GOOD

from ppojob_contract.mailbox import CheckpointRef
from ppojob_contract.parameters import Parameter
from ppojob_operator.api.v1alpha1.status import (
    CheckpointPhase,
    Intent,
    IntentKind,
    ParameterValue,
    PausedBy,
    PPOJobStatus,
    ResumePoint,
    RollbackPath,
)
from ppojob_operator.domain.checkpoints import JudgedCheckpoint
from ppojob_operator.domain.decisions import Begin
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.rollback import act_on_breach, fail

ADJUST = [{"parameter": "LearningRate", "multiply": 0.5}]
WHAT = "guardrail kl: kl was 0.9 at step 18 (bad above 0.2), bad since step 16"
NONE_CONFIRMED = (
    f"{WHAT}, and no checkpoint was confirmed before; lower spec.checkpoints.everySteps or confirmSteps, or raise the "
    "guardrail's afterStep"
)
EXHAUSTED = f"{WHAT}; 2 rollbacks brought no later confirmed checkpoint (spec.rollback.limit is 2)"


def act(*, action="Rollback", confirmed=(5, 10), policy=None, status=None, **judged):
    guardrail = raw_guardrail(action=action)
    raw = raw_spec(guardrails=[guardrail], rollback={"adjust": ADJUST, "limit": 2, "data": "Replay"} | (policy or {}))
    accepted = observation(PPOJobStatus(), spec=raw).accepted
    assert accepted is not None
    now = attempt(training_hash=accepted.training_hash, last_step=19)
    before = {"cluster_number": 1, "cluster_hash": accepted.cluster_hash, "attempt": now}
    seen = observation(
        PPOJobStatus(**(before | (status or {}))), spec=raw, clusters=(CLUSTER,), jobs=(RAY_JOB,), monitor=reached()
    )
    history = rows([GOOD] * 15 + [BAD] * 3)
    found = Judgement(
        breach=assess(guard(action=action), history).breach,
        checkpoints=tuple(
            JudgedCheckpoint(ref=CheckpointRef(attempt=1, step=step), phase=CheckpointPhase.CONFIRMED)
            for step in confirmed
        ),
        attempt_state=attempt_state(),
        last_row=history[-1],
    )
    return act_on_breach(seen, accepted, dataclasses.replace(found, **judged))


def intent(kind: IntentKind, reason: str, message: str, **fields: object) -> Begin:
    values = {
        "id": f"{kind.value.lower()}-1-1",
        "since": NOW,
        "attempt": 1,
        "step": 18,
        "guardrail": "kl",
        "replace_cluster": True,
    }
    return Begin(intent=Intent(kind=kind, reason=reason, message=message, **(values | fields)))


def rolls_back(**fields: object) -> Begin:
    values = {
        "replace_cluster": False,
        "next_attempt": 2,
        "resume": ResumePoint(attempt=1, step=10),
        "adjustments": [ParameterValue(parameter=Parameter.LEARNING_RATE, value=5e-7, spec_value=1e-6)],
        "path": RollbackPath.HOT,
    }
    decision = act()
    assert decision is not None
    told = {"data": decision.intent.data}
    message = f"{WHAT}; back to step 10 of attempt 1; {decision.intent.message.rsplit('; ', 1)[1]}"
    return intent(IntentKind.ROLLBACK, "GuardrailBreached", message, **(values | told | fields))


def test_it_goes_back_with_what_is_adjusted():
    assert act() == rolls_back()
    assert act(policy={"path": "Cold"}) == rolls_back(path=RollbackPath.COLD)
    assert act(attempt_state=None) == rolls_back(path=RollbackPath.COLD)


def test_without_a_breach_nothing_happens():
    assert act(breach=None) is None
    assert act(status={"attempt": None}) is None


def test_nothing_trusted_to_go_back_to():
    assert act(confirmed=()) == intent(IntentKind.FAIL, "NoConfirmedCheckpoint", NONE_CONFIRMED, step=19)


def test_the_limit():
    used = {"rollbacks_since_progress": 2, "rollback_mark": 10}
    assert act(status=used) == intent(IntentKind.FAIL, "RollbacksExhausted", EXHAUSTED, step=19)
    assert act(status=used | {"rollbacks_since_progress": 1}) == rolls_back()
    assert act(status=used | {"rollback_mark": 9}) == rolls_back(), "there was progress"


def test_a_person_is_asked_where_they_want_to_be():
    pause = {"onExhausted": "Pause"}
    assert act(confirmed=(), policy=pause) == intent(IntentKind.SUSPEND, "NoConfirmedCheckpoint", NONE_CONFIRMED)
    used = {"rollbacks_since_progress": 2, "rollback_mark": 10}
    assert act(status=used, policy=pause) == intent(IntentKind.SUSPEND, "RollbacksExhausted", EXHAUSTED)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("Pause", intent(IntentKind.SUSPEND, "GuardrailBreached", WHAT)),
        ("Fail", intent(IntentKind.FAIL, "GuardrailBreached", WHAT, step=19)),
    ],
)
def test_other_actions(action, expected):
    assert act(action=action) == expected


def test_what_a_person_has_chosen_to_go_on_with_is_not_acted_on_again():
    pause = PausedBy(
        guardrail="kl", reason="GuardrailBreached", message="m", attempt=1, step=18, since=NOW, released=True
    )
    assert act(status={"paused_by": pause}) is None
    assert act(status={"paused_by": pause.model_copy(update={"attempt": 2})}) is not None
    assert act(status={"paused_by": pause.model_copy(update={"released": False})}) is not None


def test_an_end_for_another_reason_names_no_guardrail():
    seen = observation(PPOJobStatus(attempt=attempt(last_step=7)))
    expected = intent(IntentKind.FAIL, "Hang", "silent", step=7, guardrail=None)
    assert fail(seen, "Hang", "silent") == expected
