"""The acts of a recorded intent, one by one: `tests/unit/controller/test_story.py` has the stories."""

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from tests.support.builders import NOW, raw_spec
from tests.support.observations import CLUSTER, HEAD, RAY_JOB, attempt, attempt_state, observation, reached

from ppojob_contract.mailbox import Ack, AckResult, Command, CommandKind
from ppojob_contract.outcomes import ExitClass, Outcome
from ppojob_contract.protocol import LockState
from ppojob_operator.api.v1alpha1.status import (
    CheckpointPhase,
    Checkpoints,
    CheckpointStatus,
    Intent,
    IntentKind,
    PPOJobStatus,
    ResumePoint,
    RollbackPath,
)
from ppojob_operator.domain.carry_out import LINGER, STOP_MARGIN, carry_out
from ppojob_operator.domain.decisions import (
    AskToStop,
    CloseAttempt,
    CreateCluster,
    Decision,
    Finish,
    RemoveCluster,
    RemoveRayJob,
    Settle,
    StartAttempt,
    SwitchAttempt,
    Wait,
)
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.observation import MonitorView, Reach
from ppojob_operator.domain.pause import resting
from ppojob_operator.domain.provision import LOCK_DEADLINE

SECOND, TWO = timedelta(seconds=1), timedelta(seconds=2)
SPEC = raw_spec(gracefulStopSeconds=20)
GRACE = timedelta(seconds=20) + STOP_MARGIN
REMOVE = RemoveRayJob(attempt=1, name="job-a1", uid="job-1")
STOP = Command(id="restart-1-1", kind=CommandKind.STOP)
ENDED = Outcome(exit_class=ExitClass.OUT_OF_MEMORY, message="no memory", step=18)
LOST = MonitorView(reach=Reach.UNREACHABLE, message="refused")


def head(**fields: Any) -> tuple[object, ...]:
    return (dataclasses.replace(CLUSTER, head=dataclasses.replace(HEAD, **fields)),)


def act(
    kind: IntentKind = IntentKind.RESTART,
    state: dict[str, Any] | None = None,
    *,
    ended: timedelta | None = None,
    driver_ended: bool = False,
    intent: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    **fields: Any,
) -> Decision:
    """What is done next about an intent of that kind, one second old, to end attempt 1."""
    values = {"since": NOW - SECOND, "reason": "Hang", "message": "why", "attempt": 1, "next_attempt": 2}
    current = Intent(id="restart-1-1", kind=kind, **(values | (intent or {})))
    now = attempt(ended=None if ended is None else NOW - ended, driver_ended=NOW if driver_ended else None)
    raw = SPEC | (spec or {})
    made_from = observation(PPOJobStatus(), spec=raw).accepted
    assert made_from is not None
    before = {"cluster_number": 1, "cluster_hash": made_from.cluster_hash, "attempt": now, "intent": current}
    seen = observation(
        PPOJobStatus(**(before | (status or {}))),
        spec=raw,
        **({"clusters": (CLUSTER,), "jobs": (RAY_JOB,), "monitor": reached()} | fields),
    )
    assert seen.accepted is not None
    found = Judgement(attempt_state=None if state is None else attempt_state(**state))
    return carry_out(seen, seen.accepted, found)


@pytest.mark.parametrize("kind", IntentKind)
def test_the_trainer_is_asked_to_stop_first(kind):
    """And to save, but where the run went bad or cannot go on."""
    cold = {"path": RollbackPath.COLD}
    save = kind not in {IntentKind.ROLLBACK, IntentKind.FAIL}
    assert act(kind, {}, intent=cold) == AskToStop(attempt=1, command_id="restart-1-1", save=save)


@pytest.mark.parametrize(
    ("state", "fields", "expected"),
    [
        ({}, {"jobs": ()}, CloseAttempt()),
        (
            {},
            {"jobs": (dataclasses.replace(RAY_JOB, deleting=True),)},
            Wait(reason="DeletingRayJob", message="RayJob job-a1 is being deleted", requeue=TWO),
        ),
        ({}, {"monitor": LOST}, Wait(reason="MonitorUnreachable", message="refused", requeue=TWO)),
        # asked
        (
            {"command": STOP},
            {"intent": {"stop_requested": NOW - GRACE}},
            Wait(reason="Stopping", message="waiting for the trainer to stop", requeue=TWO),
        ),
        ({"command": STOP}, {}, AskToStop(attempt=1, command_id="restart-1-1", save=True)),
        ({}, {"intent": {"stop_requested": NOW}}, AskToStop(attempt=1, command_id="restart-1-1", save=True)),
        ({"command": STOP}, {"intent": {"stop_requested": NOW - GRACE - SECOND}}, REMOVE),
        ({}, {"intent": {"since": NOW - GRACE - SECOND}}, REMOVE),
        (
            {"command": STOP},
            {"intent": {"since": NOW - GRACE - SECOND, "stop_requested": NOW}},
            Wait(reason="Stopping", message="waiting for the trainer to stop", requeue=TWO),
        ),
        # nobody is left to be asked
        ({"outcome": ENDED}, {}, REMOVE),
        ({"ack": Ack(id="i", kind=CommandKind.ROLLBACK, result=AckResult.REFUSED, time=0.0)}, {}, REMOVE),
        (None, {"monitor": reached(lock=LockState.FREE)}, REMOVE),
        (None, {"monitor": reached()}, AskToStop(attempt=1, command_id="restart-1-1", save=True)),
        ({}, {"monitor": reached(lock=LockState.FREE), "driver_ended": True}, REMOVE),
        ({}, {"monitor": LOST, "driver_ended": True}, REMOVE),
        ({}, {"driver_ended": True}, AskToStop(attempt=1, command_id="restart-1-1", save=True)),
        ({}, {"clusters": ()}, REMOVE),
        ({}, {"clusters": (dataclasses.replace(CLUSTER, head=None),)}, REMOVE),
        ({}, {"clusters": head(failed=True)}, REMOVE),
        ({}, {"clusters": head(restarts=1)}, REMOVE),
        ({}, {"clusters": head(uid="another")}, REMOVE),
    ],
)
def test_how_a_driver_is_ended(state, fields, expected):
    assert act(state=state, **fields) == expected


FREE = {"jobs": (), "monitor": reached(lock=LockState.FREE), "ended": SECOND}


@pytest.mark.parametrize("kind", [IntentKind.RESTART, IntentKind.SPEC_CHANGE, IntentKind.ROLLBACK])
def test_the_next_attempt_starts_where_the_driver_is_seen_gone(kind):
    assert act(kind, **FREE) == StartAttempt(number=2, cluster=1, head_uid=HEAD.uid, resume=None)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"spec": {"suspend": True}}, RemoveCluster(number=1, name="job-c1", uid="cluster-1")),
        (
            {"spec": {"suspend": True}, "clusters": ()},
            resting(PPOJobStatus()),
        ),
        ({"intent": {"replace_cluster": True}}, RemoveCluster(number=1, name="job-c1", uid="cluster-1")),
        (
            {"intent": {"replace_cluster": True}, "clusters": (), "status": {"cluster_uid": "cluster-1"}},
            CreateCluster(number=2),
        ),
        (
            {"ended": LOCK_DEADLINE, "monitor": reached()},
            Wait(reason="DriverStillRunning", message="an earlier driver has not ended yet", requeue=TWO),
        ),
        (
            {"ended": LOCK_DEADLINE + SECOND, "monitor": reached()},
            RemoveCluster(number=1, name="job-c1", uid="cluster-1"),
        ),
        ({"ended": LOCK_DEADLINE + SECOND, "monitor": LOST}, RemoveCluster(number=1, name="job-c1", uid="cluster-1")),
        (
            {"ended": LOCK_DEADLINE + SECOND},
            StartAttempt(number=2, cluster=1, head_uid=HEAD.uid, resume=None),
        ),
    ],
)
def test_the_cluster_is_kept_where_it_can_be_used(fields, expected):
    assert act(**(FREE | fields)) == expected


def test_the_cluster_that_replaces_another_is_not_replaced_again():
    second = dataclasses.replace(CLUSTER, number=2, name="job-c2")
    fields = FREE | {"clusters": (second,), "status": {"cluster_number": 2}}
    decision = act(intent={"replace_cluster": True}, **fields)
    assert decision == StartAttempt(number=2, cluster=2, head_uid=HEAD.uid, resume=None)


GONE = {"ended": SECOND, "jobs": (), "clusters": ()}


@pytest.mark.parametrize(
    ("kind", "intent", "fields", "expected"),
    [
        (IntentKind.SUSPEND, {}, GONE, Settle()),
        (
            IntentKind.SUSPEND,
            {},
            GONE | {"clusters": (CLUSTER,)},
            RemoveCluster(number=1, name="job-c1", uid="cluster-1"),
        ),
        (
            IntentKind.COMPLETE,
            {"since": NOW - LINGER + SECOND},
            GONE,
            Wait(reason="Lingering", message="the last figures are left to be scraped", requeue=TWO),
        ),
        (
            IntentKind.COMPLETE,
            {"since": NOW - LINGER},
            GONE,
            Finish(succeeded=True, outcome=ExitClass.SUCCEEDED, reason="Hang", message="why"),
        ),
        (
            IntentKind.FAIL,
            {},
            GONE,
            Finish(succeeded=False, outcome=ExitClass.HANG, reason="Hang", message="why"),
        ),
        (
            IntentKind.FAIL,
            {"reason": "RollbacksExhausted"},
            GONE,
            Finish(succeeded=False, outcome=ExitClass.UNKNOWN, reason="RollbacksExhausted", message="why"),
        ),
    ],
)
def test_everything_is_given_back_before_the_end(kind, intent, fields, expected):
    assert act(kind, intent=intent, **fields) == expected


def test_only_a_rollback_names_where_it_goes_on():
    known = [
        CheckpointStatus(attempt=1, step=10, phase=CheckpointPhase.CONFIRMED),
        CheckpointStatus(attempt=1, step=15, phase=CheckpointPhase.COMPLETE),
    ]
    fields = FREE | {
        "intent": {"resume": ResumePoint(attempt=1, step=10)},
        "status": {"checkpoints": Checkpoints(items=known)},
    }
    for kind, step in ((IntentKind.ROLLBACK, 10), (IntentKind.RESTART, 15)):
        decision = act(kind, **fields)
        assert isinstance(decision, StartAttempt)
        assert decision.resume == ResumePoint(attempt=1, step=step)


def test_a_switch_that_is_found_on_the_claim_afterwards_counts():
    told = Command(id="restart-1-1", kind=CommandKind.ROLLBACK, next_attempt=2)
    done = Ack(id="restart-1-1", kind=CommandKind.ROLLBACK, result=AckResult.DONE, time=0.0)
    assert act(IntentKind.ROLLBACK, {"command": told, "ack": done}, **FREE) == SwitchAttempt(number=2)


def test_a_rollback_is_tried_in_the_running_trainer_first():
    hot = {"path": RollbackPath.HOT, "resume": ResumePoint(attempt=1, step=10), "commanded": NOW}
    waits = act(IntentKind.ROLLBACK, {"command": Command(id="restart-1-1", kind=CommandKind.ROLLBACK)}, intent=hot)
    assert isinstance(waits, Wait)
    assert waits.reason == "AwaitingTrainer"
