"""What a value is compared with where a run has validations, several attempts or little past."""

from tests.support.builders import assess, guard, row, rows
from tests.support.judging import judge_rows

from ppojob_contract.journal import CHECKPOINT_SAVED, RowKind
from ppojob_contract.protocol import StepRow
from ppojob_operator.api.v1alpha1.status import Verdict
from ppojob_operator.domain.guardrails.references import Confirmed, Start


def event(step: int, name: str = CHECKPOINT_SAVED) -> StepRow:
    return StepRow(kind=RowKind.EVENT, step=step, time=0.0, values={}, event=name)


def test_a_row_is_of_the_weights_before_it_and_a_validation_of_those_of_its_step():
    steps, validations = Confirmed(validation=False), Confirmed(validation=True)
    for past in (steps, validations):
        past.add(10, 0.1)
        past.confirmed(10)
    assert (steps.value(11), validations.value(11)) == (None, 0.1)
    for past in (steps, validations):
        past.add(11, 0.2)
    assert (steps.value(12), validations.value(12)) == (0.2, 0.1)


def test_a_figure_that_never_came_has_no_start():
    assert Start().value(20) is None
    compared = guard(conditions=[{"metric": "kl", "relativeTo": "Start", "ratio": 2}], action="Warn")
    assert assess(compared, [*(row(step) for step in range(1, 17)), row(17, kl=0.1)]).verdict is Verdict.WAITING


VALIDATED = guard(
    conditions=[{"metric": "validationReward", "relativeTo": "Confirmed", "ratio": 0.5}], forSteps=1, action="Warn"
)


def test_a_validation_is_compared_with_that_of_the_confirmed_weights():
    history = [*rows([0.1] * 20), row(20, RowKind.VALIDATION, validationReward=0.6)]
    history[10:10] = [row(10, RowKind.VALIDATION, validationReward=0.8), event(10)]
    reading = assess(VALIDATED, history).reading
    assert reading is not None
    assert reading.references == (0.8,)


def test_only_a_saved_checkpoint_can_become_confirmed():
    compared = guard(conditions=[{"metric": "kl", "relativeTo": "Confirmed", "ratio": 5}], action="Warn")
    assert assess(compared, [*rows([0.1] * 10), event(10, "RollbackRefused"), *rows([0.1] * 10, first=11)]).step is None
    assert assess(compared, [*rows([0.1] * 10), event(10), *rows([0.1] * 10, first=11)]).step == 20


def test_the_best_of_earlier_attempts_counts_too():
    compared = guard(conditions=[{"metric": "kl", "relativeTo": "Best", "ratio": 2}], action="Warn", forSteps=1)
    along = [*((1, item) for item in rows([0.1, 0.2])), *((2, item) for item in rows([0.3], first=3))]
    (found,) = judge_rows([compared], along, attempt=2, window=3).assessments
    assert found.reading is not None
    assert found.reading.references == (0.1,)
    assert found.breach is not None
    assert found.failing == 1


def test_a_validation_that_lacked_the_figure_is_remembered():
    history = [row(1), row(1, RowKind.VALIDATION), *(row(step) for step in range(2, 22))]
    assert assess(VALIDATED, history).missing == "validationReward"


def test_a_pause_needs_no_grace():
    paused = guard(forSteps=1, action="Pause")
    breach = assess(paused, rows([0.3]), grace_through=9).breach
    assert breach is not None
    assert breach.step == 1
