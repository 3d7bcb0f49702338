"""Each answer of the rollback in place, word for word: `tests/unit/controller/test_hot.py` has the stories."""

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from tests.support.builders import NOW, raw_spec, row
from tests.support.observations import CLUSTER, HEAD, RAY_JOB, attempt, attempt_state, observation, reached

from ppojob_contract.data_plan import DataPlan
from ppojob_contract.mailbox import Ack, AckResult, CheckpointRef, Claimant, Command, CommandKind
from ppojob_contract.outcomes import ExitClass, Outcome
from ppojob_contract.parameters import Parameter
from ppojob_operator.api.v1alpha1.data_status import DataPlanStatus
from ppojob_operator.api.v1alpha1.status import (
    Intent,
    IntentKind,
    ParameterValue,
    PPOJobStatus,
    ResumePoint,
    RollbackPath,
)
from ppojob_operator.domain.decisions import Decision, GoCold, Revoke, RollBackInPlace, SwitchAttempt, Wait
from ppojob_operator.domain.hot import CLAIM_MARGIN, command, hot, possible
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.observation import MonitorView, Observation, Reach

SPEC = raw_spec(failurePolicy={"startupTimeoutSeconds": 60})
INTENT = Intent(
    id="rollback-1-1",
    kind=IntentKind.ROLLBACK,
    since=NOW - timedelta(seconds=50),
    reason="GuardrailBreached",
    attempt=1,
    path=RollbackPath.HOT,
    next_attempt=2,
    resume=ResumePoint(attempt=1, step=10),
    data=DataPlanStatus(reshuffle=1),
    adjustments=[ParameterValue(parameter=Parameter.LEARNING_RATE, value=1e-4, spec_value=1e-3)],
)
OURS, THEIRS = command(INTENT), Command(id="suspend-1-1", kind=CommandKind.STOP)
ENDED = Outcome(exit_class=ExitClass.OUT_OF_MEMORY, message="no memory", step=18)
TIMED_OUT = timedelta(seconds=61)


def ack(result: AckResult, name: str = INTENT.id) -> Ack:
    return Ack(id=name, kind=CommandKind.ROLLBACK, result=result, time=0.0, message="so")


def look(*, told: timedelta | None = None, since: timedelta | None = None, **fields: Any) -> tuple[Observation, Intent]:
    """What is seen of attempt 1, and the intent, commanded so long ago."""
    update: dict[str, Any] = {"commanded": None if told is None else NOW - told}
    if since is not None:
        update["since"] = NOW - since
    edited, ended = fields.pop("edited", False), fields.pop("ended", None)
    seen = observation(PPOJobStatus(), spec=SPEC)
    assert seen.accepted is not None
    now = attempt(training_hash="another" if edited else seen.accepted.training_hash, ended=ended)
    status = PPOJobStatus(cluster_number=1, cluster_hash=seen.accepted.cluster_hash, attempt=now)
    values = {"clusters": (CLUSTER,), "jobs": (RAY_JOB,), "monitor": reached()} | fields
    return observation(status, spec=SPEC, **values), INTENT.model_copy(update=update)


def answer(state: dict[str, Any] | None = None, intent: dict[str, Any] | None = None, **fields: Any) -> Decision | None:
    seen, current = look(**fields)
    current = current.model_copy(update=intent or {})
    assert seen.accepted is not None
    assert seen.job.status.attempt is not None
    found = Judgement(attempt_state=None if state is None else attempt_state(**state))
    return hot(seen, seen.accepted, found, current, seen.job.status.attempt)


LOST = MonitorView(reach=Reach.UNREACHABLE, message="refused")
SECOND = timedelta(seconds=1)
MINE = {"command": OURS}
CLAIMED = {"command": OURS, "claimed_by": Claimant.TRAINER}
OTHER_HEAD = dataclasses.replace(CLUSTER, head=dataclasses.replace(HEAD, uid="other"))


@pytest.mark.parametrize(
    ("state", "fields", "expected"),
    [
        # nothing was told yet
        ({}, {}, RollBackInPlace(attempt=1, command=OURS)),
        ({}, {"told": SECOND}, RollBackInPlace(attempt=1, command=OURS)),
        ({}, {"edited": True}, GoCold(message="the spec changed", number_used=False)),
        ({"outcome": ENDED}, {}, GoCold(message="the trainer has ended", number_used=False)),
        ({}, {"jobs": ()}, GoCold(message="the trainer has ended", number_used=False)),
        ({"command": THEIRS}, {}, GoCold(message="the trainer has been asked for something else", number_used=False)),
        (
            {"command": THEIRS, "claimed_by": Claimant.TRAINER},
            {},
            GoCold(message="the trainer has been asked for something else", number_used=False),
        ),
        # told, not claimed
        (
            MINE,
            {"told": CLAIM_MARGIN},
            Wait(
                reason="AwaitingTrainer",
                message="the trainer has not seen the command yet",
                requeue=timedelta(seconds=2),
            ),
        ),
        (
            MINE,
            {"edited": True, "told": SECOND},
            Wait(
                reason="AwaitingTrainer",
                message="the trainer has not seen the command yet",
                requeue=timedelta(seconds=2),
            ),
        ),
        (MINE, {"told": CLAIM_MARGIN + SECOND}, Revoke(attempt=1)),
        (MINE | {"outcome": ENDED}, {"told": SECOND}, GoCold(message="the trainer has ended", number_used=False)),
        (MINE, {"told": SECOND, "jobs": ()}, GoCold(message="the trainer has ended", number_used=True)),
        (MINE, {"told": SECOND, "clusters": (OTHER_HEAD,)}, GoCold(message="the trainer has ended", number_used=True)),
        # claimed
        (
            CLAIMED,
            {"told": timedelta(seconds=60)},
            Wait(reason="RollingBackInPlace", message="the trainer loads the checkpoint", requeue=SECOND),
        ),
        (
            CLAIMED,
            {"told": TIMED_OUT},
            GoCold(message="the trainer did not finish (failurePolicy.startupTimeoutSeconds)", number_used=True),
        ),
        (
            CLAIMED | {"outcome": ENDED},
            {"told": SECOND},
            GoCold(message="the trainer ended while it rolled back", number_used=True),
        ),
        (
            CLAIMED,
            {"told": SECOND, "jobs": ()},
            GoCold(message="the trainer ended while it rolled back", number_used=True),
        ),
        (
            CLAIMED | {"ack": ack(AckResult.REFUSED)},
            {"told": SECOND},
            GoCold(message="the trainer cannot do it in place: so", number_used=False),
        ),
        (
            CLAIMED | {"ack": ack(AckResult.FAILED)},
            {"told": SECOND},
            GoCold(message="the trainer failed to: so", number_used=True),
        ),
        (CLAIMED | {"ack": ack(AckResult.DONE)}, {"told": SECOND}, SwitchAttempt(number=2)),
        (
            {"command": OURS, "claimed_by": Claimant.MONITOR},
            {"told": SECOND},
            GoCold(message="the trainer did not see the command in time", number_used=False),
        ),
    ],
)
def test_what_the_mailbox_says_decides(state, fields, expected):
    assert answer(state, **fields) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, Wait(reason="MonitorUnreachable", message="refused", requeue=timedelta(seconds=2))),
        (
            {"told": timedelta(seconds=60)},
            Wait(reason="MonitorUnreachable", message="refused", requeue=timedelta(seconds=2)),
        ),
        ({"told": TIMED_OUT}, GoCold(message="its monitor does not answer: refused", number_used=True)),
        ({"since": TIMED_OUT}, GoCold(message="its monitor does not answer: refused", number_used=False)),
        (
            {"since": TIMED_OUT, "told": SECOND},
            Wait(reason="MonitorUnreachable", message="refused", requeue=timedelta(seconds=2)),
        ),
        ({"jobs": ()}, GoCold(message="the trainer was lost", number_used=False)),
        ({"jobs": (), "told": SECOND}, GoCold(message="the trainer was lost", number_used=True)),
    ],
)
def test_what_cannot_be_seen_uses_the_number_up(fields, expected):
    """Only where the trainer was told: it may have taken it."""
    assert answer(None, monitor=LOST, **fields) == expected


def test_a_monitor_that_knows_nothing_of_the_attempt_is_no_answer():
    assert answer(None) == Wait(reason="MonitorUnreachable", message="", requeue=timedelta(seconds=2))


def test_slow_steps_give_the_trainer_more_time():
    rows = {1: tuple(row(step, stepSeconds=20.0) for step in range(1, 4))}
    within = answer(MINE, told=CLAIM_MARGIN + 2 * timedelta(seconds=20), monitor=reached(rows=rows))
    assert isinstance(within, Wait)
    beyond = answer(MINE, told=CLAIM_MARGIN + 2 * timedelta(seconds=20) + SECOND, monitor=reached(rows=rows))
    assert beyond == Revoke(attempt=1)


@pytest.mark.parametrize(
    "intent", [{"path": RollbackPath.COLD}, {"path": None}, {"kind": IntentKind.SUSPEND, "path": None}]
)
def test_other_intents_are_none_of_its_business(intent):
    assert answer(CLAIMED, intent, told=SECOND) is None


def test_what_the_trainer_has_done_holds_although_it_was_given_up():
    assert answer(CLAIMED | {"ack": ack(AckResult.DONE)}, {"path": RollbackPath.COLD}) == SwitchAttempt(number=2)


@pytest.mark.parametrize(
    ("state", "intent"),
    [
        ({"command": THEIRS, "ack": ack(AckResult.DONE)}, {"path": RollbackPath.COLD}),
        ({"command": OURS, "ack": ack(AckResult.DONE, "other")}, {"path": RollbackPath.COLD}),
        ({"command": OURS, "ack": ack(AckResult.FAILED)}, {"path": RollbackPath.COLD}),
        ({"command": OURS, "ack": ack(AckResult.DONE)}, {"kind": IntentKind.RESTART, "path": None}),
        ({"ack": ack(AckResult.DONE)}, {"path": RollbackPath.COLD}),
        ({"command": OURS}, {"path": RollbackPath.COLD}),
        (
            {"command": dataclasses.replace(OURS, next_attempt=None), "ack": ack(AckResult.DONE)},
            {"path": RollbackPath.COLD},
        ),
    ],
)
def test_no_other_word_is_taken_for_it(state, intent):
    assert answer(state, intent) is None


def test_the_command_says_all():
    assert OURS.to_json() == {
        "id": "rollback-1-1",
        "kind": "Rollback",
        "save": True,
        "target": {"attempt": 1, "step": 10},
        "settings": {"LearningRate": 1e-4},
        "nextAttempt": 2,
        "data": DataPlan(reshuffle=1).to_json(),
    }
    assert OURS.target == CheckpointRef(attempt=1, step=10)


def can(found: Judgement | None = None, spec: dict[str, Any] | None = None, **fields: Any) -> bool:
    seen, _ = look(**fields)
    accepted = seen.accepted
    assert accepted is not None
    if spec:
        accepted = dataclasses.replace(accepted, spec=accepted.spec.model_validate(SPEC | spec))
    return possible(seen, accepted, found or Judgement(attempt_state=attempt_state(), last_row=row(12)))


def test_a_trainer_that_trains_can():
    assert can()


@pytest.mark.parametrize(
    "fields",
    [
        {"ended": NOW},
        {"jobs": ()},
        {"jobs": (dataclasses.replace(RAY_JOB, deleting=True),)},
        {"jobs": (dataclasses.replace(RAY_JOB, job_status="FAILED"),)},
        {"clusters": ()},
        {"clusters": (dataclasses.replace(CLUSTER, deleting=True),)},
        {"clusters": (OTHER_HEAD,)},
        {"edited": True},
        {"spec": {"rollback": {"path": "Cold"}}},
        {"found": Judgement(attempt_state=attempt_state())},
        {"found": Judgement(last_row=row(12))},
        {"found": Judgement(attempt_state=attempt_state(outcome=ENDED), last_row=row(12))},
    ],
)
def test_any_other_cannot(fields):
    assert not can(**fields)
