"""What a running attempt calls for, case by case: `tests/unit/controller/test_faults.py` has the stories."""

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from tests.support.builders import NOW, assess, guard, raw_spec, row, rows
from tests.support.observations import CLUSTER, HEAD, RAY_JOB, attempt, attempt_state, observation, reached

from ppojob_contract.mailbox import CheckpointRef, Command, CommandKind, prestop_id
from ppojob_contract.outcomes import ExitClass, Outcome
from ppojob_contract.protocol import LockState
from ppojob_operator.api.v1alpha1.status import (
    CheckpointPhase,
    Checkpoints,
    CheckpointStatus,
    DataPlanStatus,
    Intent,
    IntentKind,
    ParameterValue,
    PPOJobStatus,
    ResumePoint,
    ResumeSource,
)
from ppojob_operator.domain.decisions import Begin, Decision, StartAttempt, Wait
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.observation import MonitorView, Reach
from ppojob_operator.domain.provision import SILENT_DRIVER
from ppojob_operator.domain.supervise import LOST_MONITOR, supervise
from ppojob_operator.domain.targets import UNLOADABLE

SECOND = timedelta(seconds=1)
SPEC = raw_spec(failurePolicy={"startupTimeoutSeconds": 60, "stepTimeoutSeconds": 40, "maxRestarts": 3})
LOST = MonitorView(reach=Reach.UNREACHABLE, message="refused")
FREE = reached(lock=LockState.FREE)
FAILED_JOB = dataclasses.replace(RAY_JOB, job_status="FAILED", message="gone")


def outcome(how: ExitClass, step: int = 30) -> Outcome:
    return Outcome(exit_class=how, message="so", step=step)


def look(
    state: dict[str, Any] | None = None,
    *,
    all_rows: bool = True,
    breached: bool = False,
    stepped: bool = True,
    edited: bool = False,
    rendered: bool = True,
    now: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **fields: Any,
) -> Decision:
    accepted = observation(PPOJobStatus(), spec=SPEC).accepted
    assert accepted is not None
    current = attempt(**({"training_hash": "another" if edited else accepted.training_hash} | (now or {})))
    before: dict[str, Any] = {
        "cluster_number": 1,
        "cluster_hash": accepted.cluster_hash if rendered else "another",
        "attempt": current,
    }
    values = {"clusters": (CLUSTER,), "jobs": (RAY_JOB,), "monitor": reached()} | fields
    seen = observation(PPOJobStatus(**(before | (status or {}))), spec=SPEC, **values)
    found = Judgement(
        attempt_state=attempt_state(**(state or {})),
        everything_judged=all_rows,
        last_row=row(12) if stepped else None,
        breach=assess(guard(), rows([0.9] * 3)).breach if breached else None,
    )
    return supervise(seen, accepted, found)


def begun(decision: Decision) -> tuple[IntentKind, str, bool]:
    assert isinstance(decision, Begin), decision
    intent: Intent = decision.intent
    return intent.kind, intent.reason, intent.replace_cluster


RESTART, FAIL, CHANGE = IntentKind.RESTART, IntentKind.FAIL, IntentKind.SPEC_CHANGE


def test_a_run_that_trains_is_left_alone():
    assert look() == Wait(reason="Training")
    assert look(monitor=LOST) == Wait(reason="MonitorUnreachable", message="refused", requeue=timedelta(seconds=5))


def test_an_end_is_judged_to_its_last_row_first():
    for how in ExitClass:
        waits = look({"outcome": outcome(how)}, all_rows=False)
        assert waits == Wait(reason="JudgingLastRows", requeue=SECOND)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (ExitClass.SUCCEEDED, (IntentKind.COMPLETE, "Succeeded", True)),
        (ExitClass.STOPPED, (RESTART, "Stopped", False)),
        (ExitClass.CONFIG_ERROR, (FAIL, "ConfigError", True)),
        (ExitClass.DATA_ERROR, (FAIL, "DataError", True)),
        (ExitClass.NON_FINITE, (FAIL, "NonFinite", True)),
        (ExitClass.OUT_OF_MEMORY, (RESTART, "OutOfMemory", False)),
        (ExitClass.COMMUNICATION, (RESTART, "Communication", True)),
        (ExitClass.STORAGE_ERROR, (RESTART, "StorageError", False)),
        (ExitClass.HANG, (RESTART, "Hang", False)),
        (ExitClass.DUPLICATE, (RESTART, "Duplicate", False)),
        (ExitClass.UNKNOWN, (RESTART, "Unknown", False)),
    ],
)
def test_how_it_ended_decides(how, expected):
    assert begun(look({"outcome": outcome(how)})) == expected


@pytest.mark.parametrize("how", [ExitClass.CONFIG_ERROR, ExitClass.DATA_ERROR])
def test_what_no_rollback_mends_ends_the_job_also_after_a_breach(how):
    failed = look({"outcome": outcome(how)}, breached=True)
    assert begun(failed) == (FAIL, how.value, True)
    assert isinstance(failed, Begin)
    assert failed.intent.message.startswith("so; before that guardrail kl: kl was 0.9 at step 3")
    assert isinstance(look({"outcome": outcome(how)}, breached=True, all_rows=False), Wait)


@pytest.mark.parametrize("how", sorted(set(ExitClass) - {ExitClass.CONFIG_ERROR, ExitClass.DATA_ERROR}))
def test_any_other_end_comes_after_a_breach(how):
    assert begun(look({"outcome": outcome(how)}, breached=True))[1] == "NoConfirmedCheckpoint"


def test_a_checkpoint_that_does_not_load_is_passed_over_also_where_the_configuration_is_blamed():
    unusable = dataclasses.replace(outcome(ExitClass.CONFIG_ERROR), unusable=CheckpointRef(attempt=1, step=5))
    assert begun(look({"outcome": unusable}))[:2] == (RESTART, UNLOADABLE)


def test_success_before_the_last_step_is_none():
    early = {"outcome": outcome(ExitClass.SUCCEEDED, 29)}
    assert begun(look(early)) == (FAIL, "EndedEarly", True)
    assert begun(look(early, edited=True)) == (CHANGE, "SpecChanged", False), "more steps were asked for"


def lost_head(**fields: Any) -> tuple[object, ...]:
    return (dataclasses.replace(CLUSTER, head=dataclasses.replace(HEAD, **fields)),)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"clusters": ()}, "ClusterLost"),
        ({"clusters": (dataclasses.replace(CLUSTER, deleting=True),)}, "ClusterLost"),
        ({"clusters": (dataclasses.replace(CLUSTER, head=None),)}, "HeadLost"),
        ({"clusters": lost_head(failed=True)}, "HeadLost"),
        ({"clusters": lost_head(restarts=1)}, "HeadLost"),
        ({"clusters": lost_head(uid="another")}, "HeadLost"),
        ({"jobs": (FAILED_JOB,), "monitor": LOST, "now": {"driver_ended": NOW - LOST_MONITOR}}, "MonitorLost"),
    ],
)
def test_what_is_lost_is_replaced(fields, reason):
    assert begun(look(**fields)) == (RESTART, reason, True)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"jobs": ()}, (RESTART, "RayJobLost", False)),
        ({"jobs": (dataclasses.replace(RAY_JOB, deleting=True),)}, (RESTART, "RayJobLost", False)),
        (
            {"jobs": (dataclasses.replace(RAY_JOB, deployment_status="ValidationFailed"),)},
            (FAIL, "RayJobInvalid", True),
        ),
        (
            {"jobs": (FAILED_JOB,), "monitor": FREE, "now": {"driver_ended": NOW - SILENT_DRIVER}},
            (RESTART, "Unknown", False),
        ),
    ],
)
def test_a_driver_that_is_gone_is_replaced(fields, expected):
    assert begun(look(**fields)) == expected


def test_a_driver_that_may_be_there_is_waited_for():
    ended = {"jobs": (FAILED_JOB,), "now": {"driver_ended": NOW - SILENT_DRIVER + SECOND}}
    waiting = Wait(reason="DriverEnded", message="waiting for the attempt's outcome", requeue=timedelta(seconds=2))
    assert look(monitor=FREE, **ended) == waiting
    assert look(monitor=reached(), now={"driver_ended": NOW - LOST_MONITOR}) == Wait(reason="Training"), (
        "it holds its lock"
    )
    blind = look(monitor=LOST, jobs=(FAILED_JOB,), now={"driver_ended": NOW - LOST_MONITOR + SECOND})
    assert isinstance(blind, Wait)


@pytest.mark.parametrize(
    ("fields", "hangs"),
    [
        ({"stepped": False, "now": {"created": NOW - timedelta(seconds=60)}}, False),
        ({"stepped": False, "now": {"created": NOW - timedelta(seconds=61)}}, True),
        ({"now": {"created": NOW - timedelta(seconds=61)}}, False),
        ({"state": {"last_heartbeat_age_seconds": 40.0}}, False),
        ({"state": {"last_heartbeat_age_seconds": 40.5}}, True),
        ({"state": {"last_heartbeat_age_seconds": None}}, False),
        ({"state": {"last_heartbeat_age_seconds": 40.5}, "monitor": LOST}, False),
    ],
)
def test_silence_of_the_trainer_is_a_hang_and_that_of_the_monitor_is_not(fields, hangs):
    decision = look(**fields)
    assert isinstance(decision, Begin) == hangs
    if hangs:
        assert begun(decision) == (RESTART, "Hang", False)


def test_an_edit_needs_another_attempt_and_maybe_another_cluster():
    assert begun(look(edited=True)) == (CHANGE, "SpecChanged", False)
    assert begun(look(rendered=False)) == (CHANGE, "SpecChanged", True)


def test_a_job_that_was_never_seen_is_created_again():
    fields: dict[str, Any] = {"jobs": (), "now": {"job_uid": None}}
    assert look(**fields) == StartAttempt(number=1, cluster=1, head_uid=HEAD.uid, resume=None)
    begun_from = {
        "resume": ResumePoint(attempt=1, step=10),
        "source": ResumeSource(path="/elsewhere/global_step_5", step=5),
        "data": DataPlanStatus(reshuffle=2),
    }
    lower = ParameterValue.model_validate({"parameter": "LearningRate", "value": 1e-7, "specValue": 1e-6})
    again = look(jobs=(), now={"job_uid": None, **begun_from}, status={"adjustments": [lower]})
    assert again == StartAttempt(number=1, cluster=1, head_uid=HEAD.uid, adjustments=(lower,), **begun_from)
    assert look(now={"job_uid": None}) == Wait(reason="Training")


STOPPED = outcome(ExitClass.STOPPED)


def asked_by(command_id: str) -> dict[str, Any]:
    return {"outcome": STOPPED, "command": Command(id=command_id, kind=CommandKind.STOP)}


@pytest.mark.parametrize(
    ("fields", "expected", "said"),
    [
        ({"state": asked_by(prestop_id(HEAD.uid))}, "HeadLost", "the head pod of RayCluster c1 was deleted; before"),
        ({"state": {"outcome": STOPPED}, "clusters": lost_head(deleting=True)}, "HeadLost", "the head pod of RayClust"),
        ({"state": asked_by("stop-1"), "clusters": lost_head(deleting=True)}, "HeadLost", "the head pod of RayCluste"),
        ({"state": asked_by(prestop_id("worker-7"))}, "WorkerLost", "a worker pod was deleted; before that the train"),
        ({"state": asked_by("stop-1")}, "Stopped", "so"),
        ({"state": {"outcome": STOPPED}}, "Stopped", "so"),
        ({"state": asked_by(prestop_id(HEAD.uid)), "clusters": ()}, "ClusterLost", "RayCluster c1 is gone"),
        ({"state": {"outcome": STOPPED}, "clusters": lost_head(uid="other")}, "HeadLost", "the head pod of job-c1 was"),
    ],
)
def test_a_stop_that_the_operator_did_not_ask_for_is_a_pods_end(fields, expected, said):
    decision = look(**fields)
    assert begun(decision) == (RESTART, expected, expected in {"HeadLost", "ClusterLost"})
    assert isinstance(decision, Begin)
    assert decision.intent.message.startswith(said)


def test_why_a_head_pod_was_lost_is_told():
    evicted = look(clusters=lost_head(failed=True, message="evicted"))
    assert isinstance(evicted, Begin)
    assert evicted.intent.message == "the head pod of job-c1 was lost: evicted"
    gone = look(clusters=lost_head(failed=True))
    assert isinstance(gone, Begin)
    assert gone.intent.message == "the head pod of job-c1 was lost"


UNUSABLE = Outcome(
    exit_class=ExitClass.STORAGE_ERROR, message="cut", step=10, unusable=CheckpointRef(attempt=1, step=15)
)


def test_a_checkpoint_that_cannot_be_loaded_is_passed_over_without_counting_as_a_restart():
    for used in (0, 99):
        decision = look({"outcome": UNUSABLE}, status={"restarts_since_progress": used, "restart_mark": 12})
        assert begun(decision) == (RESTART, UNLOADABLE, False)
        assert isinstance(decision, Begin)
        assert decision.intent.message == "cut; the next attempt takes the checkpoint before"


def test_restarts_without_progress_come_to_an_end():
    used = {"restarts_since_progress": 3, "restart_mark": 12}
    failed = {"outcome": outcome(ExitClass.OUT_OF_MEMORY)}
    assert begun(look(failed, status=used)) == (FAIL, "OutOfMemory", True)
    assert begun(look(failed, status=used | {"restart_mark": 11})) == (RESTART, "OutOfMemory", False)
    assert begun(look(failed, status=used | {"restarts_since_progress": 2})) == (RESTART, "OutOfMemory", False)


LOWER = ParameterValue.model_validate({"parameter": "LearningRate", "value": 1e-7, "specValue": 1e-6})
THERE = Checkpoints(items=[CheckpointStatus(attempt=1, step=10, phase=CheckpointPhase.COMPLETE)])
SILENT: dict[str, Any] = {"jobs": (FAILED_JOB,), "monitor": FREE, "now": {"driver_ended": NOW - SILENT_DRIVER}}


@pytest.mark.parametrize(
    ("fields", "resume"),
    [
        ({"state": {"outcome": outcome(ExitClass.HANG)}}, ResumePoint(attempt=1, step=10)),
        ({"state": {"outcome": UNUSABLE}}, ResumePoint(attempt=1, step=10)),
        ({"edited": True}, None),  # whatever is the newest once the trainer has saved and stopped
    ],
)
def test_the_next_attempt_goes_on_with_what_rollbacks_have_adjusted(fields, resume):
    decision = look(**fields, status={"adjustments": [LOWER], "checkpoints": THERE})
    assert isinstance(decision, Begin)
    assert decision.intent.adjustments == [LOWER]
    assert decision.intent.resume == resume


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"jobs": ()}, "the attempt's RayJob is gone"),
        ({"edited": True}, "the spec changed (generation 1): the next attempt goes on from the newest checkpoint"),
        (SILENT, "the driver ended without an outcome (RayJob FAILED: gone)"),
        (
            SILENT | {"jobs": (dataclasses.replace(FAILED_JOB, job_status=""),)},
            "the driver ended without an outcome (RayJob Running: gone)",
        ),
    ],
)
def test_why_the_next_attempt_is_made_is_told(fields, said):
    decision = look(**fields)
    assert isinstance(decision, Begin)
    assert decision.intent.message == said
