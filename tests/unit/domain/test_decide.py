"""The order of what comes first, case by case: `tests/unit/controller` has the stories."""

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from tests.support.builders import NOW, raw_spec
from tests.support.observations import CLUSTER, RAY_JOB, attempt, attempt_state, observation, reached

from ppojob_operator.api.v1alpha1.status import IntentKind, PausedBy, PPOJobStatus
from ppojob_operator.domain.decide import decide
from ppojob_operator.domain.decisions import CLAIM_NOT_FOUND, Begin, CreateCluster, Decision, DeleteJob, Refuse, Wait
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.observation import Observation

HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
TRAINING = {"clusters": (CLUSTER,), "jobs": (RAY_JOB,), "monitor": reached()}
JUDGED = Judgement(attempt_state=attempt_state(), everything_judged=True)


def seen(status: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, **fields: Any) -> Observation:
    found = observation(PPOJobStatus(), spec=raw_spec(**(spec or {})), **fields)
    assert found.accepted is not None
    hashes = {"cluster_hash": found.accepted.cluster_hash, "cluster_number": 1}
    begun = attempt(training_hash=found.accepted.training_hash)
    now = PPOJobStatus(**(hashes | {"attempt": begun} | (status or {})))
    return dataclasses.replace(found, job=dataclasses.replace(found.job, status=now))


def deleting(found: Observation) -> Observation:
    return dataclasses.replace(found, job=dataclasses.replace(found.job, deleting=True))


def verdict(found: Observation) -> Decision:
    return decide(found, JUDGED)


def test_nothing_is_done_for_a_job_that_is_being_deleted():
    for status in ({}, {"finished": NOW}, {"attempt": None}):
        assert verdict(deleting(seen(status, {"suspend": True}))) == Wait(reason="Deleting")


@pytest.mark.parametrize(
    ("age", "ttl", "expected"),
    [
        (2 * HOUR, None, Wait(reason="Finished", requeue=HOUR)),
        (60 * SECOND, 60, DeleteJob()),
        (61 * SECOND, 60, DeleteJob()),
        (59 * SECOND, 60, Wait(reason="Finished", requeue=SECOND)),
        (0 * SECOND, 7200, Wait(reason="Finished", requeue=HOUR)),
        (0 * SECOND, 0, DeleteJob()),
    ],
)
def test_a_finished_job_is_left_alone_until_its_time_is_over(age, ttl, expected):
    spec = {} if ttl is None else {"ttlSecondsAfterFinished": ttl}
    assert verdict(seen({"finished": NOW - age}, spec | {"suspend": True}, **TRAINING)) == expected


def test_a_finished_job_whose_spec_is_refused_now_is_not_deleted():
    found = dataclasses.replace(seen({"finished": NOW - HOUR}, {"ttlSecondsAfterFinished": 1}), accepted=None)
    assert verdict(found) == Wait(reason="Finished", requeue=HOUR)


def test_a_refused_spec_is_refused_whatever_runs():
    assert verdict(dataclasses.replace(seen(**TRAINING), accepted=None)) == Refuse()


@pytest.mark.parametrize("fields", [TRAINING, {"clusters": (CLUSTER,)}, {"jobs": (RAY_JOB,)}, {}])
@pytest.mark.parametrize("how", ["suspend", "pause"])
def test_what_is_to_rest_is_stopped_to_its_last_object(fields, how):
    pause = PausedBy(guardrail="kl", reason="KLTooHigh", message="kl was 1", attempt=1, step=9, since=NOW)
    over = attempt(ended=NOW)
    spec, status = ({"suspend": True}, {}) if how == "suspend" else ({}, {"paused_by": pause})
    for current in (None, over):
        decision = verdict(seen(status | {"attempt": current}, spec, **fields))
        if fields:
            assert isinstance(decision, Begin)
            intent = decision.intent
            assert (intent.kind, intent.reason, intent.replace_cluster) == (IntentKind.SUSPEND, "Suspended", True)
            assert intent.message == "spec.suspend is true"
        else:
            assert isinstance(decision, Wait)
            assert decision.reason == "Suspended"
    assert isinstance(verdict(seen(status, spec)), Begin), "its attempt has not been closed"


def test_without_its_claim_nothing_is_started():
    missing = verdict(seen({"attempt": None}, storage_bound=False))
    assert isinstance(missing, Wait)
    assert missing.reason == CLAIM_NOT_FOUND
    assert missing.message.startswith("spec.storage.claimName: no PersistentVolumeClaim '")
    assert isinstance(verdict(seen(storage_bound=False, **TRAINING)), Wait), "one that runs has it"
    for bound in (True, None):
        assert isinstance(verdict(seen({"attempt": None}, storage_bound=bound)), CreateCluster)
