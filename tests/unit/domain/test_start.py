"""The way to an attempt, act by act."""

import dataclasses

import pytest
from tests.support.builders import assess, guard, row, rows
from tests.support.observations import CLUSTER, HEAD, RAY_JOB, attempt, observation, reached
from tests.support.scripts import BAD, GOOD

from ppojob_contract.journal import CHECKPOINT_SAVED, RowKind
from ppojob_contract.mailbox import CheckpointRef
from ppojob_contract.parameters import Parameter
from ppojob_contract.protocol import LockState, StepRow
from ppojob_operator.api.v1alpha1.status import (
    CheckpointPhase,
    IntentKind,
    ParameterValue,
    PPOJobStatus,
    ResumePoint,
    RollbackMark,
)
from ppojob_operator.domain.checkpoints import JudgedCheckpoint
from ppojob_operator.domain.counters import restarts_without_progress, rollbacks_without_progress
from ppojob_operator.domain.decisions import Begin, CreateCluster, RemoveCluster, RemoveRayJob, StartAttempt, Wait
from ppojob_operator.domain.guardrails.episodes import Breach
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.start import start
from ppojob_operator.domain.targets import all_lost, restart_point, resume_point, rollback_target

HASH = observation(PPOJobStatus()).accepted.cluster_hash  # type: ignore[union-attr]
READY = {"clusters": (CLUSTER,), "monitor": reached(lock=LockState.FREE)}


def breach(first: int = 16) -> Breach:
    """Of guardrail `kl`, found two steps later."""
    found = assess(guard(), rows([GOOD] * (first - 1) + [BAD] * 3)).breach
    assert found is not None
    return found


def judged(**phases: CheckpointPhase) -> Judgement:
    """s10=Confirmed: the checkpoint of attempt 1 at step 10."""
    return Judgement(
        checkpoints=tuple(
            JudgedCheckpoint(ref=CheckpointRef(attempt=1, step=int(name[1:])), phase=phase)
            for name, phase in phases.items()
        )
    )


CONFIRMED, COMPLETE, SUSPECT = CheckpointPhase.CONFIRMED, CheckpointPhase.COMPLETE, CheckpointPhase.SUSPECT
TRUSTED = judged(s5=CONFIRMED, s10=CONFIRMED, s15=COMPLETE)


def act(status=None, *, found=TRUSTED, target=None, adjustments=(), **fields):
    before = {"cluster_number": 1, "cluster_hash": HASH, "cluster_uid": "cluster-1", "attempt": attempt()}
    seen = observation(PPOJobStatus(**(before | (status or {}))), **(READY | fields))
    assert seen.accepted is not None
    return start(seen, seen.accepted, found, number=2, adjustments=adjustments, target=target)


def test_a_start_from_the_newest_whole_checkpoint():
    assert act() == StartAttempt(number=2, cluster=1, head_uid=HEAD.uid, resume=ResumePoint(attempt=1, step=15))


def test_a_rollback_from_its_target_with_what_was_adjusted_and_not_edited_since():
    kept = ParameterValue(parameter=Parameter.LEARNING_RATE, value=1e-7, spec_value=1e-6)
    edited = ParameterValue(parameter=Parameter.CLIP_RATIO, value=0.1, spec_value=0.9)
    target = ResumePoint(attempt=1, step=10)
    found = dataclasses.replace(TRUSTED, breach=breach())
    decision = act(found=found, target=target, adjustments=[kept, edited])
    assert decision == StartAttempt(number=2, cluster=1, head_uid=HEAD.uid, resume=target, adjustments=(kept,))


def test_a_breach_that_nobody_saw_comes_before_a_start():
    decision = act(found=dataclasses.replace(TRUSTED, breach=breach()))
    assert isinstance(decision, Begin)
    assert decision.intent.resume == ResumePoint(attempt=1, step=10)


@pytest.mark.parametrize(
    ("status", "fields", "expected"),
    [
        ({"cluster_hash": "old"}, {}, RemoveCluster(number=1, name="job-c1", uid="cluster-1")),
        ({"cluster_hash": "old"}, {"jobs": (RAY_JOB,)}, RemoveRayJob(attempt=1, name="job-a1", uid="job-1")),
        ({}, {"clusters": ()}, CreateCluster(number=2)),
        ({"cluster_hash": "old"}, {"clusters": ()}, CreateCluster(number=2)),
    ],
)
def test_the_cluster_comes_first(status, fields, expected):
    assert act(status, **fields) == expected


def test_nothing_starts_beside_old_pods_or_an_old_driver():
    waits = [act(clusters=(), leftover_pods=("old",)), act(monitor=reached())]
    assert [wait.reason for wait in waits if isinstance(wait, Wait)] == ["OldPodsTerminating", "DriverStillRunning"]


# ---- which checkpoint ----------------------------------------------------------------------------------------------


def target(found: Judgement, *, first: int = 16, last: RollbackMark | None = None, healthy: int = 0):
    point = rollback_target(PPOJobStatus(attempt=attempt(), last_rollback=last), found, breach(first), healthy)
    return point.step if point else None


def test_a_rollback_goes_to_a_confirmed_checkpoint_that_no_bad_row_describes():
    assert target(TRUSTED) == 10
    assert target(TRUSTED, first=12) == 10
    assert target(TRUSTED, first=11) == 5, "row 11 describes checkpoint 10"
    assert target(judged(s5=COMPLETE, s10=SUSPECT)) is None


def test_the_same_breach_again_so_soon_goes_farther_back():
    before = RollbackMark(guardrail="kl", target=ResumePoint(attempt=1, step=10))
    assert target(TRUSTED, last=before, healthy=8) == 5
    assert target(TRUSTED, last=before, healthy=7) == 10, "it was healthy for long enough in between"
    assert target(TRUSTED, last=before.model_copy(update={"guardrail": "other"}), healthy=8) == 10
    assert target(judged(s10=CONFIRMED), last=before, healthy=8) == 10, "there is no older one"


def test_a_restart_goes_on_from_what_is_whole_and_not_suspect():
    status = PPOJobStatus(attempt=attempt())
    assert restart_point(status, judged(s5=CONFIRMED, s10=COMPLETE, s15=SUSPECT)) == ResumePoint(attempt=1, step=10)
    assert restart_point(status, judged(s5=COMPLETE, s10=CONFIRMED)) == ResumePoint(attempt=1, step=10)
    assert restart_point(status, judged(s5=SUSPECT)) is None
    assert restart_point(PPOJobStatus(attempt=attempt(number=2)), TRUSTED) is None, "they led to other weights"


UNUSABLE = CheckpointPhase.UNUSABLE
TEN = ResumePoint(attempt=1, step=10)


@pytest.mark.parametrize(
    ("found", "step"),
    [
        (judged(s5=CONFIRMED, s10=CONFIRMED, s15=UNUSABLE), 10),
        (judged(s5=CONFIRMED, s10=UNUSABLE, s15=CONFIRMED), 5),
        (judged(s5=COMPLETE, s10=UNUSABLE, s15=CONFIRMED), None),
        (judged(s5=CONFIRMED, s15=CONFIRMED), 5),
    ],
)
def test_a_target_that_was_lost_is_replaced_by_the_confirmed_one_before(found, step):
    resume = resume_point(PPOJobStatus(attempt=attempt()), found, TEN)
    assert (resume and resume.step) == step


def saved(*, attempt_number: int = 1, found: Judgement = Judgement(), resume: ResumePoint | None = None) -> bool:
    """Whether all is lost, where the journal of that attempt tells of a checkpoint."""
    told = StepRow(kind=RowKind.EVENT, step=5, time=5.0, values={}, event=CHECKPOINT_SAVED)
    status = PPOJobStatus(attempt=attempt(resume=resume))
    return all_lost(observation(status, monitor=reached(rows={attempt_number: (row(5), told)})), found)


def test_checkpoints_that_were_there_and_cannot_be_loaded_are_lost():
    assert saved()
    assert saved(found=judged(s5=UNUSABLE))
    assert not saved(found=judged(s5=UNUSABLE, s10=SUSPECT))
    assert not saved(attempt_number=7), "it did not lead here"
    assert saved(resume=TEN, attempt_number=7), "it began from one"
    status = PPOJobStatus(attempt=attempt())
    assert not all_lost(observation(status, monitor=reached(rows={1: (row(5),)})), Judgement()), "there never was one"
    elsewhere = JudgedCheckpoint(ref=CheckpointRef(attempt=7, step=5), phase=CONFIRMED)
    assert saved(found=Judgement(checkpoints=(elsewhere,)))


def test_training_is_not_begun_anew_over_lost_checkpoints():
    decision = act({"attempt": attempt(resume=TEN)}, found=judged(s10=UNUSABLE))
    assert isinstance(decision, Begin)
    assert (decision.intent.kind, decision.intent.reason) == (IntentKind.FAIL, "NoUsableCheckpoint")
    assert decision.intent.message == (
        "no checkpoint can be loaded any more (see status.checkpoints); training is not begun anew"
    )
    assert isinstance(act(found=Judgement(checkpoints=())), StartAttempt), "nothing was saved yet"


# ---- what has been used up -----------------------------------------------------------------------------------------


def test_only_a_checkpoint_beyond_the_breach_is_progress():
    used = PPOJobStatus(rollbacks_since_progress=2, rollback_mark=10)
    assert rollbacks_without_progress(used, TRUSTED) == 2
    assert rollbacks_without_progress(used.model_copy(update={"rollback_mark": 9}), TRUSTED) == 0
    assert rollbacks_without_progress(used, judged(s15=COMPLETE)) == 2


def test_only_a_step_beyond_the_last_restart_is_progress():
    used = PPOJobStatus(restarts_since_progress=2, restart_mark=10, attempt=attempt(last_step=10))
    assert restarts_without_progress(used, Judgement()) == 2
    assert restarts_without_progress(used.model_copy(update={"attempt": attempt(last_step=11)}), Judgement()) == 0
    assert restarts_without_progress(used.model_copy(update={"attempt": None}), Judgement()) == 2
    assert restarts_without_progress(used, Judgement(last_row=row(10))) == 2
    assert restarts_without_progress(used, Judgement(last_row=row(11))) == 0, "not written down yet"


@pytest.mark.parametrize("now", [attempt(), None])
def test_no_step_is_no_progress(now):
    used = PPOJobStatus(restarts_since_progress=2, attempt=now)
    assert restarts_without_progress(used, Judgement()) == 2
