"""Which checkpoints may go: each rule by an example; `tests/properties/test_retention.py` has what always holds."""

import math

import pytest
from tests.support.builders import raw_guardrail, row, spec

from ppojob_contract.journal import RowKind
from ppojob_contract.mailbox import CheckpointRef
from ppojob_operator.api.v1alpha1.checkpoints import KeepBest
from ppojob_operator.api.v1alpha1.status import CheckpointPhase, CheckpointStatus
from ppojob_operator.domain.best import best_checkpoints
from ppojob_operator.domain.checkpoints import JudgedCheckpoint
from ppojob_operator.domain.retention import TIGHT, Limits, almost_full, dispensable, limits, never_deleted

C, W, S, A, U, SAVING = (
    CheckpointPhase.CONFIRMED,
    CheckpointPhase.COMPLETE,
    CheckpointPhase.SUSPECT,
    CheckpointPhase.ABANDONED,
    CheckpointPhase.UNUSABLE,
    CheckpointPhase.SAVING,
)
THREE = Limits(confirmed=3, unproven=4, failed=3)
NOBODY: frozenset[CheckpointRef] = frozenset()


def judged(**phases: CheckpointPhase) -> list[JudgedCheckpoint]:
    """`s10=C`: step 10 is Confirmed."""
    return [
        JudgedCheckpoint(ref=CheckpointRef(attempt=1, step=int(name[1:])), phase=phase, size_bytes=100)
        for name, phase in phases.items()
    ]


def gone(checkpoints: list[JudgedCheckpoint], wanted: Limits = THREE, needed=NOBODY) -> list[int]:
    return [ref.step for ref in dispensable(checkpoints, needed, wanted)]


def test_the_newest_confirmed_stay():
    assert gone(judged(s5=C, s10=C, s15=C, s20=C, s25=W)) == [5]


def test_two_confirmed_stay_whatever_is_wanted():
    assert gone(judged(s5=C, s10=C, s15=C), Limits(confirmed=0, unproven=0, failed=0)) == [5]


def test_what_is_older_than_a_confirmed_one_will_not_be_proven():
    assert gone(judged(s5=W, s10=C, s15=W)) == [5]


def test_unproven_ones_are_bounded():
    """Figures have been missing for long: the next to be proven and the newest four stay."""
    assert gone(judged(s5=C, s10=W, s15=W, s20=W, s25=W, s30=W, s35=W)) == [15]


def test_what_failed_stays_until_the_run_is_beyond_it():
    assert gone(judged(s10=C, s15=A, s20=S, s25=U)) == []
    assert gone(judged(s10=C, s15=A, s20=C, s25=U)) == [15]


def test_what_failed_is_bounded():
    assert gone(judged(s10=C, s15=A, s20=A, s25=S, s30=S)) == [15]


def test_what_is_needed_stays():
    needed = frozenset({CheckpointRef(attempt=1, step=5)})
    assert gone(judged(s5=C, s10=C, s15=C, s20=C, s25=C), needed=needed) == [10]


def test_what_is_being_saved_stays():
    assert gone(judged(s5=SAVING, s10=C, s15=C)) == []


def test_on_a_full_volume_little_stays():
    assert gone(judged(s5=C, s10=C, s15=C, s16=A, s20=W, s25=W, s30=W, s35=S), TIGHT) == [5, 16, 25, 35]


@pytest.mark.parametrize(("free", "full"), [(None, False), (124, True), (126, False)])
def test_full_is_when_the_next_one_does_not_fit(free, full):
    assert almost_full(judged(s5=C, s10=C), free) is full


def test_as_many_unproven_ones_as_are_under_proof_at_a_time():
    checkpoints = {"everySteps": 5, "confirmSteps": 12, "keepLast": 4}
    assert limits(spec(checkpoints=checkpoints)) == Limits(confirmed=4, unproven=4 + 3, failed=4)
    slow = [raw_guardrail(forSteps=30)]
    assert limits(spec(checkpoints=checkpoints, guardrails=slow)).unproven == 4 + 6


def test_a_validation_guardrail_proves_at_validations_only():
    training = {"totalSteps": 100, "batchSize": 16, "miniBatchSize": 8, "validateEverySteps": 20}
    guards = [raw_guardrail(conditions=[{"metric": "validationReward", "below": 0.1}])]
    checkpoints = {"everySteps": 5, "confirmSteps": 5}
    assert limits(spec(checkpoints=checkpoints, guardrails=guards, training=training)).unproven == 3 + 5


def test_every_checkpoint_can_be_proven_although_each_step_is_saved():
    """With only the newest few kept, none would ever live long enough."""
    wanted = limits(spec(checkpoints={"everySteps": 1, "confirmSteps": 20}))
    assert gone(judged(**{f"s{step}": W for step in range(1, 22)}), wanted) == []


# ---- the best -----------------------------------------------------------------------------------------------------


def validations(**values: float):
    return {1: [row(int(name[1:]), RowKind.VALIDATION, validationReward=value) for name, value in values.items()]}


def best(policy: KeepBest | None, checkpoints, rows) -> list[int]:
    return [item.step for item in best_checkpoints(policy, checkpoints, rows)]


def test_the_best_by_its_own_validation():
    checkpoints = judged(s5=C, s10=C, s15=C, s20=W)
    rows = validations(s5=0.3, s10=0.5, s15=0.4, s20=0.9)
    assert best(KeepBest(), checkpoints, rows) == [10], "a checkpoint that is not proven is not the best"
    assert best(KeepBest(count=2), checkpoints, rows) == [10, 15]
    assert best(KeepBest.model_validate({"goal": "Minimize"}), checkpoints, rows) == [5]
    assert best(None, checkpoints, rows) == []


def test_what_was_not_validated_or_is_no_number_is_not_the_best():
    checkpoints = judged(s5=C, s10=C, s15=C)
    assert best(KeepBest(count=3), checkpoints, validations(s5=math.nan, s10=math.inf, s12=0.9)) == []


def test_of_equal_ones_the_newer_is_the_best():
    assert best(KeepBest(), judged(s5=C, s10=C), validations(s5=0.5, s10=0.5)) == [10]


# ---- what vanished ------------------------------------------------------------------------------------------------


def test_what_would_never_be_deleted_is_missed_when_it_is_gone():
    items = [
        CheckpointStatus(attempt=1, step=item.ref.step, phase=item.phase)
        for item in judged(s5=C, s10=C, s15=C, s20=W, s25=W, s30=S)
    ]
    assert [item.step for item in never_deleted(items)] == [10, 15, 25]
