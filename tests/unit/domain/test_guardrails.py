import math

import pytest
from tests.support.builders import guardrail, row, rows

from ppojob_contract.journal import RowKind
from ppojob_operator.api.v1alpha1.status import Verdict
from ppojob_operator.domain.guardrails import Assessment, assess, first_breach, violated

GOOD, BAD = 0.1, 0.3


def judged(*values: float, grace_through: int = 0, **fields: object) -> Assessment:
    return assess(guardrail(**fields), rows(values), grace_through=grace_through)


@pytest.mark.parametrize(
    ("values", "verdict", "failing", "breach_step"),
    [
        ([], Verdict.WAITING, 0, None),
        ([GOOD], Verdict.HEALTHY, 0, None),
        ([BAD, BAD], Verdict.HEALTHY, 2, None),
        ([BAD, BAD, BAD], Verdict.BREACHED, 3, 3),
        ([BAD, BAD, GOOD, BAD, BAD], Verdict.HEALTHY, 2, None),
        ([GOOD, BAD, BAD, BAD, BAD], Verdict.BREACHED, 4, 4),
        ([BAD, BAD, BAD, GOOD, GOOD], Verdict.HEALTHY, 0, 3),
    ],
    ids=["no rows", "good", "not long enough", "long enough", "interrupted", "goes on", "recovered but breached"],
)
def test_counts_consecutive_bad_observations(values, verdict, failing, breach_step):
    result = judged(*values)
    assert (result.verdict, result.failing) == (verdict, failing)
    assert (result.breach.step if result.breach else None) == breach_step


def test_a_breach_names_its_first_bad_step():
    breach = judged(GOOD, BAD, BAD, BAD).breach
    assert breach is not None
    assert (breach.first_step, breach.step, breach.value) == (2, 4, BAD)
    assert "kl was 0.3 at step 4 (bad above 0.2), bad since step 2" in breach.summary


def test_the_value_at_the_threshold_is_good():
    assert judged(0.2, 0.2, 0.2).breach is None


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_non_finite_value_is_out_of_bounds(value):
    assert judged(value, value, value).breach is not None


def test_nan_violates_a_lower_bound_too():
    condition = guardrail(conditions=[{"metric": "entropy", "below": 0.1}]).conditions[0]
    assert violated(condition, math.nan)
    assert not violated(condition, 0.2)
    assert violated(condition, 0.05)


def test_steps_up_to_after_step_are_not_judged():
    result = judged(BAD, BAD, BAD, BAD, BAD, afterStep=3)
    assert (result.failing, result.breach) == (2, None)


def test_waiting_until_a_step_behind_after_step_was_seen():
    assert judged(BAD, BAD, BAD, afterStep=3).verdict is Verdict.WAITING


def test_a_row_without_the_figure_leaves_the_count():
    history = [row(1, kl=BAD), row(2), row(3, kl=BAD), row(4), row(5, kl=BAD)]
    assert assess(guardrail(), history).breach is not None


def test_a_figure_that_never_comes_is_missing_after_twenty_rows():
    assert not assess(guardrail(), [row(n) for n in range(1, 20)]).missing
    assert assess(guardrail(), [row(n) for n in range(1, 21)]).missing


def test_grace_after_a_resume_delays_a_rollback_but_not_a_warning():
    assert judged(BAD, BAD, BAD, grace_through=3).breach is None
    assert judged(BAD, BAD, BAD, BAD, grace_through=3).breach is not None
    assert judged(BAD, BAD, BAD, grace_through=3, action="Warn").breach is not None


def test_validation_figures_are_read_from_validation_rows_only():
    guard = guardrail(conditions=[{"metric": "validationReward", "below": 0.5}], forSteps=1)
    step_row = row(1, validationReward=0.1)
    validation = row(2, RowKind.VALIDATION, validationReward=0.1)
    assert assess(guard, [step_row]).breach is None
    assert assess(guard, [step_row, validation]).breach is not None


def test_only_rollback_guardrails_that_are_no_dry_runs_roll_back():
    bad = rows([BAD] * 5)
    kinds = [
        guardrail(name="warns", action="Warn"),
        guardrail(name="dry", dryRun=True),
        guardrail(name="late", forSteps=4),
        guardrail(name="early", forSteps=2),
    ]
    breach = first_breach(assess(item, bad) for item in kinds)
    assert breach is not None
    assert breach.guardrail.name == "early"
    assert first_breach(assess(item, bad) for item in kinds[:2]) is None
