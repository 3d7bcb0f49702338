import math

import pytest
from tests.support.builders import assess, guard, row, rows, spec
from tests.support.judging import judge_rows

from ppojob_contract.journal import CHECKPOINT_SAVED, RowKind
from ppojob_contract.protocol import StepRow
from ppojob_operator.api.v1alpha1.status import Verdict
from ppojob_operator.domain.guardrails.bounds import violated
from ppojob_operator.domain.guardrails.episodes import Assessment, first_breach
from ppojob_operator.domain.guardrails.guards import guards_of
from ppojob_operator.domain.guardrails.status import guardrail_status

GOOD, BAD = 0.1, 0.3


def judged(*values: float, grace_through: int = 0, **fields: object) -> Assessment:
    return assess(guard(**fields), rows(values), grace_through=grace_through)


@pytest.mark.parametrize(
    ("values", "verdict", "failing", "breach_step"),
    [
        ([], Verdict.WAITING, 0, None),
        ([GOOD], Verdict.HEALTHY, 0, None),
        ([BAD, BAD], Verdict.HEALTHY, 2, None),
        ([BAD, BAD, BAD], Verdict.BREACHED, 3, 3),
        ([BAD, BAD, GOOD, BAD, BAD], Verdict.HEALTHY, 2, None),
        ([GOOD, BAD, BAD, BAD, BAD], Verdict.BREACHED, 3, 4),
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
    assert (breach.first_step, breach.step) == (2, 4)
    assert "kl was 0.3 at step 4 (bad above 0.2), bad since step 2" in breach.summary


def test_the_value_at_the_threshold_is_good():
    assert judged(0.2, 0.2, 0.2).breach is None


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_non_finite_value_is_out_of_bounds(value):
    assert judged(value, value, value).breach is not None


def test_nan_violates_a_lower_bound_too():
    assert violated(None, 0.1, math.nan)
    assert not violated(None, 0.1, 0.2)
    assert violated(None, 0.1, 0.05)


def test_steps_up_to_after_step_are_not_judged():
    result = judged(BAD, BAD, BAD, BAD, BAD, afterStep=3)
    assert (result.failing, result.breach) == (2, None)


def test_waiting_until_a_step_behind_after_step_was_seen():
    assert judged(BAD, BAD, BAD, afterStep=3).verdict is Verdict.WAITING


def test_a_row_without_the_figure_leaves_the_count():
    history = [row(1, kl=BAD), row(2), row(3, kl=BAD), row(4), row(5, kl=BAD)]
    assert assess(guard(), history).breach is not None


def test_a_figure_that_never_comes_is_missing_after_twenty_rows():
    assert not assess(guard(), [row(n) for n in range(1, 20)]).missing
    assert assess(guard(), [row(n) for n in range(1, 21)]).missing


def test_grace_after_a_resume_delays_a_rollback_but_not_a_warning():
    assert judged(BAD, BAD, BAD, grace_through=3).breach is None
    assert judged(BAD, BAD, BAD, BAD, grace_through=3).breach is not None
    assert judged(BAD, BAD, BAD, grace_through=3, action="Warn").breach is not None


def test_validation_figures_are_read_from_validation_rows_only():
    validated = guard(conditions=[{"metric": "validationReward", "below": 0.5}], forSteps=1)
    step_row = row(1, validationReward=0.1)
    validation = row(2, RowKind.VALIDATION, validationReward=0.1)
    assert assess(validated, [step_row]).breach is None
    assert assess(validated, [step_row, validation]).breach is not None


def test_only_rollback_guardrails_that_are_no_dry_runs_roll_back():
    bad = rows([BAD] * 5)
    kinds = [
        guard(name="warns", action="Warn"),
        guard(name="dry", dryRun=True),
        guard(name="late", forSteps=4),
        guard(name="early", forSteps=2),
    ]
    breach = first_breach(assess(item, bad) for item in kinds)
    assert breach is not None
    assert breach.guardrail.name == "early"
    assert first_breach(assess(item, bad) for item in kinds[:2]) is None


# ---- several conditions -------------------------------------------------------------------------------------------

RELATIVE = {"metric": "kl", "relativeTo": "Median"}
TOGETHER = [{"metric": "kl", "above": 0.2}, {"metric": "rewardMean", "below": 0.5}]


def test_all_conditions_must_hold_on_the_same_row():
    far, poor = {"kl": BAD, "rewardMean": 0.9}, {"kl": GOOD, "rewardMean": 0.1}
    apart = [row(step, **(far if step % 2 else poor)) for step in range(1, 10)]
    assert assess(guard(conditions=TOGETHER), apart).episodes == ()
    together = [row(step, kl=BAD, rewardMean=0.1) for step in range(1, 4)]
    breach = assess(guard(conditions=TOGETHER), together).breach
    assert breach is not None
    assert breach.summary == (
        "kl was 0.3 and rewardMean was 0.1 at step 3 (bad above 0.2 and below 0.5), bad since step 1"
    )


def test_a_row_that_lacks_one_of_the_figures_leaves_the_count():
    history = [row(1, kl=BAD, rewardMean=0.1), row(2, kl=BAD), row(3, rewardMean=0.9), row(4, kl=BAD, rewardMean=0.1)]
    found = assess(guard(conditions=TOGETHER, forSteps=2), history)
    assert found.breach is not None
    assert (found.breach.first_step, found.breach.step) == (1, 4)


def test_with_a_validation_figure_validations_are_counted_and_the_newest_step_judged_with_them():
    mixed = guard(conditions=[TOGETHER[0], {"metric": "validationReward", "below": 0.5}], forSteps=2)
    poor, fine = ([row(step, RowKind.VALIDATION, validationReward=value) for step in (3, 6, 9)] for value in (0.1, 0.9))
    bad = rows([BAD] * 9)
    assert assess(mixed, bad).step is None, "no validation yet"
    assert assess(mixed, [*bad[:3], poor[0], *bad[3:]]).episodes == (), "one validation, judged once"
    found = assess(mixed, [*bad[:3], poor[0], *bad[3:6], poor[1], *bad[6:]]).breach
    assert found is not None
    assert (found.first_step, found.step) == (3, 6)
    assert assess(mixed, [*bad[:3], fine[0], *bad[3:6], fine[1]]).breach is None
    good = rows([GOOD] * 6)
    assert assess(mixed, [*bad[:5], good[5], poor[1], *bad[6:], poor[2]]).breach is None


def test_a_step_s_reference_is_the_same_when_it_is_judged_with_a_validation():
    values = [row(step, kl=float(step)) for step in range(1, 5)]
    validation = row(4, RowKind.VALIDATION, validationReward=0.1)
    mixed = guard(conditions=[RELATIVE | {"by": 1}, {"metric": "validationReward", "below": 0.5}])
    reading = assess(mixed, [*values, validation]).reading
    assert reading is not None
    assert reading.references[0] == 2.0, "the median of 1, 2, 3"


def test_one_figure_of_several_that_never_comes_is_missing():
    history = [row(step, kl=GOOD) for step in range(1, 21)]
    assert assess(guard(conditions=TOGETHER), history).missing == "rewardMean"


def test_a_figure_that_should_be_finite_and_never_comes_is_missing_too():
    history = [row(step, rewardMean=0.5) for step in range(1, 21)]
    finite = guard(conditions=[{"metric": "criticGradNorm", "above": 1.0e308}])
    assert assess(finite, history[:-1]).missing is None
    assert assess(finite, history).missing == "criticGradNorm"


@pytest.mark.parametrize(("estimator", "after"), [("GAE", 50), ("GRPO", 20)])
def test_a_warm_up_of_the_critic_lacks_the_actor_s_figures(estimator, after):
    training = {"totalSteps": 90, "batchSize": 16, "miniBatchSize": 8, "criticWarmupSteps": 30}
    blocks = {"algorithm": {"estimator": estimator}, "rollout": {"samplesPerPrompt": 2}, "training": training}
    assert {item.missing_after for item in guards_of(spec(**blocks))} == {after}


def test_a_validation_figure_is_missing_only_where_a_validation_lacked_it():
    validated = guard(conditions=[{"metric": "validationReward", "below": 0.5}])
    history = rows([GOOD] * 30)
    assert assess(validated, history).missing is None
    assert assess(validated, [*history, row(30, RowKind.VALIDATION)]).missing == "validationReward"


# ---- so many of so many -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "breach_step", "first_step"),
    [
        ([BAD, GOOD, BAD, GOOD, BAD], 5, 1),
        ([BAD, GOOD, GOOD, GOOD, GOOD, BAD, BAD], None, None),
        ([BAD, GOOD, GOOD, GOOD, BAD, BAD, BAD], 7, 5),
        ([BAD, BAD, BAD], 3, 1),
    ],
    ids=["spread", "the first has left", "later ones", "on end"],
)
def test_so_many_of_the_last_so_many(values, breach_step, first_step):
    breach = judged(*values, forSteps=None, failing={"count": 3, "of": 5}).breach
    assert (breach.step if breach else None) == breach_step
    assert (breach.first_step if breach else None) == first_step


def test_an_episode_is_one_however_long_it_lasts():
    values = [BAD] * 5 + [GOOD, BAD] + [GOOD] * 5 + [BAD] * 3
    episodes = judged(*values, forSteps=None, failing={"count": 3, "of": 5}).episodes
    assert [(item.first_step, item.step) for item in episodes] == [(1, 3), (13, 15)]


# ---- compared with the past ---------------------------------------------------------------------------------------


def relative(to: str, **fields: float) -> dict[str, object]:
    return {"conditions": [{"metric": "kl", "relativeTo": to, **fields}], "forSteps": 1}


def bounds(to: str, values: list[float], **fields: float) -> list[float | None]:
    """The reference at each row."""
    compared = guard(**relative(to, **fields))
    found = [assess(compared, rows(values[:count])).reading for count in range(1, len(values) + 1)]
    return [item.references[0] if item else None for item in found]


def test_start_is_the_mean_of_steps_5_to_15():
    values = [100.0] * 4 + [1.0] * 5 + [3.0] * 6 + [50.0] * 3
    found = bounds("Start", values, ratio=2)
    assert found[:15] == [None] * 15
    assert found[15:] == [pytest.approx(23 / 11)] * 3


def test_start_of_a_sparse_figure_is_its_first_value_behind_them():
    history = [row(step, **({"kl": float(step)} if step % 20 == 0 else {})) for step in range(1, 61)]
    found = assess(guard(**relative("Start", ratio=2.5)), history)
    assert found.reading is not None
    assert found.reading.references == (20.0,)
    assert found.breach is not None
    assert found.breach.step == 60


@pytest.mark.parametrize(("fields", "best"), [({"ratio": 0.5}, 5.0), ({"by": -1}, 5.0), ({"ratio": 2}, 1.0)])
def test_best_is_the_greatest_where_less_is_bad_and_the_smallest_where_more_is(fields, best):
    assert bounds("Best", [3.0, 5.0, 1.0, 2.0], **fields)[-1] == best


def test_best_does_not_contain_the_row_itself_nor_what_is_not_finite():
    assert bounds("Best", [3.0, math.inf, 4.0, 9.0], ratio=0.5) == [None, 3.0, 3.0, 4.0]


def test_median_of_all_before():
    assert bounds("Median", [1.0, 9.0, 2.0, 4.0], ratio=3) == [None, 1.0, 5.0, 2.0]


def test_a_ratio_of_a_negative_reference_holds_never():
    values = [-1.0, -100.0, 100.0]
    assert assess(guard(**relative("Best", ratio=0.5)), rows(values)).episodes == ()
    assert assess(guard(**relative("Best", by=-50)), rows(values)).breach is not None


def test_a_guardrail_that_a_negative_reference_silences_says_so():
    found = guardrail_status(assess(guard(**relative("Best", ratio=0.5)), rows([-1.0, -2.0])), None)
    assert found.verdict is Verdict.WAITING
    assert found.message == "not judged: a ratio of -1 says nothing; use by instead of ratio"
    assert guardrail_status(assess(guard(**relative("Best", ratio=0.5)), rows([1.0, 0.9])), None).message == ""


@pytest.mark.parametrize(("bad", "worse", "best"), [("Below", [1.0, 1.05], 1.0), ("Above", [1.0, 1.2], 1.0)])
def test_a_side_can_be_said(bad, worse, best):
    found = assess(guard(**relative("Best", by=0.1, bad=bad)), rows(worse))
    assert found.breach is not None
    assert f"{bad.lower()} Best + 0.1 = {best + 0.1}" in found.breach.summary
    other = {"Below": "Above", "Above": "Below"}[bad]
    assert assess(guard(**relative("Best", by=0.1, bad=other)), rows(worse)).breach is None


def test_a_guardrail_waits_for_its_reference():
    assert assess(guard(**relative("Start", ratio=2)), rows([1.0] * 10)).verdict is Verdict.WAITING


def test_confirmed_is_the_value_behind_the_newest_checkpoint_that_proved_itself_by_then():
    history = []
    for step in range(1, 31):
        history.append(row(step, kl=step / 100))
        if step % 10 == 0:
            history.append(StepRow(kind=RowKind.EVENT, step=step, time=0.0, values={}, event=CHECKPOINT_SAVED))
    compared = guard(**relative("Confirmed", ratio=5))
    by_step = {
        item.step: item.references[0]
        for count in range(1, len(history) + 1)
        if (item := assess(compared, history[:count]).reading) is not None
    }
    assert 13 not in by_step, "step 13 is the third clean row behind checkpoint 10: the next one can be compared"
    assert (by_step[14], by_step[23], by_step[24]) == (0.11, 0.11, 0.21)


def test_a_reference_does_not_follow_what_a_rollback_guardrail_calls_bad():
    history = [row(step, kl=GOOD if step <= 13 else BAD) for step in range(1, 40)]
    saved = [StepRow(kind=RowKind.EVENT, step=step, time=0.0, values={}, event=CHECKPOINT_SAVED) for step in (10, 20)]
    along = sorted([*history, *saved], key=lambda item: (item.step, item.kind is RowKind.EVENT))
    compared, acting = guard(**relative("Confirmed", ratio=2), action="Warn"), guard(name="acts")
    judged_all = judge_rows([compared, acting], [(1, item) for item in along], attempt=1, window=3)
    reading = judged_all.assessments[0].reading
    assert reading is not None
    assert reading.references == (GOOD,)


# ---- which breach acts --------------------------------------------------------------------------------------------


def test_the_gravest_of_the_breaches_at_the_earliest_step_acts():
    bad = rows([BAD] * 5)
    guards = [guard(name=action.lower(), action=action) for action in ("Warn", "Rollback", "Pause", "Fail")]
    found = first_breach(assess(item, bad) for item in guards)
    assert found is not None
    assert found.guardrail.name == "fail"
    early = guard(name="early", action="Pause", forSteps=2)
    found = first_breach(assess(item, bad) for item in [*guards, early])
    assert found is not None
    assert found.guardrail.name == "early"


def test_what_is_not_finite_acts_in_the_grace_after_a_resume():
    assert judged(math.nan, math.nan, math.nan, grace_through=10).breach is not None
