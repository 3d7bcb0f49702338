import math

import pytest
from tests.support.builders import row, spec
from tests.support.judging import judge_rows

from ppojob_contract.figures import FIGURES
from ppojob_contract.journal import RowKind
from ppojob_operator.api.v1alpha1.guardrails import Guardrail, GuardrailAction, Preset
from ppojob_operator.domain.guardrails.cleanness import window
from ppojob_operator.domain.guardrails.episodes import Assessment
from ppojob_operator.domain.guardrails.guards import Guard, expand, guards_of, is_validation_metric, rule_guard
from ppojob_operator.domain.guardrails.presets import PRESETS, Rule


def preset(kind: str, **fields: object) -> list[Guard]:
    return list(expand(Guardrail.model_validate({"name": "mine", "preset": kind} | fields)))


def assessed(guards: list[Guard], history) -> dict[str, Assessment]:
    judged = judge_rows(guards, [(1, item) for item in history], attempt=1, window=3)
    return {item.guardrail.name: item for item in judged.assessments}


def test_every_preset_is_there_and_uses_known_figures():
    assert set(PRESETS) == set(Preset)
    for info in PRESETS.values():
        assert info.meaning
        assert info.advice
        for rule in info.rules:
            assert rule.count <= rule.of
            assert {condition.metric for condition in rule.conditions} <= set(FIGURES)


def test_a_preset_alone_is_what_the_table_says():
    (found,) = preset("GradientExplosion")
    assert (found.name, found.count, found.of, found.after_step) == ("mine", 3, 5, 5)
    assert found.action is GuardrailAction.WARN


def test_each_field_overrides_a_preset():
    above = {"metric": "kl", "above": 0.3}
    (found,) = preset(
        "KLRunaway", conditions=[above], failing={"count": 2, "of": 4}, afterStep=10, action="Rollback", dryRun=True
    )
    assert [condition.above for condition in found.conditions] == [0.3]
    assert (found.count, found.of, found.after_step, found.action, found.dry_run) == (
        2, 4, 10, GuardrailAction.ROLLBACK, True,
    )  # fmt: skip


def test_a_condition_replaces_that_on_the_same_metric_only():
    (found,) = preset("RewardHacking", conditions=[{"metric": "kl", "above": 0.5}])
    assert {condition.metric: condition.above for condition in found.conditions} == {
        "rewardMean": None,
        "validationReward": None,
        "kl": 0.5,
    }


def test_of_several_rules_those_that_warn_stay():
    some, many = preset(
        "RewardFunctionFailing", forSteps=7, conditions=[{"metric": "failedPromptFraction", "above": 0.5}]
    )
    assert (some.name, some.count, some.conditions[0].above) == ("mine-some", 1, 0.0)
    assert (many.name, many.count, many.conditions[0].above) == ("mine-many", 7, 0.5)


def test_non_finite_gradients_and_rewards():
    found = assessed(
        preset("NonFinite"), [row(step, gradNorm=math.nan if step in {3, 7} else 1e9) for step in range(1, 20)]
    )
    assert [item.step for item in found["mine-gradient"].episodes] == [3, 7]
    assert found["mine-gradients"].breach is None
    often = assessed(
        preset("NonFinite"), [row(step, gradNorm=math.inf if step % 4 == 0 else 1.0) for step in range(1, 20)]
    )
    assert often["mine-gradients"].breach is not None
    assert often["mine-gradients"].breach.step == 12
    reward = assessed(preset("NonFinite"), [row(1, rewardMean=math.nan)])["mine-reward"].breach
    assert reward is not None
    assert reward.guardrail.action is GuardrailAction.PAUSE
    assert "rewardMean was nan at step 1 (bad not finite)" in reward.summary


def names(**blocks: object) -> set[str]:
    return {guard.name for guard in guards_of(spec(**blocks))}


def test_defaults_are_replaced_by_a_guardrail_of_the_same_preset_and_can_be_declined():
    non_finite = {"NonFinite-gradient", "NonFinite-gradients", "NonFinite-reward"}
    failing = {"RewardFunctionFailing-some", "RewardFunctionFailing-many"}
    assert names() == non_finite | failing
    mine = [{"name": "mine", "preset": "RewardFunctionFailing", "action": "Warn"}]
    assert names(guardrails=mine) == non_finite | {"mine-some", "mine-many"}
    assert names(defaultGuardrails=False) == set()


def test_a_default_guardrail_is_its_rule_as_it_stands():
    """And says which preset it is of; one of a spec says which guardrail it is of, too."""
    kind = Preset.NON_FINITE
    found = {guard.name: guard for guard in guards_of(spec())}
    for rule in PRESETS[kind].rules:
        guard = found[f"NonFinite-{rule.suffix}"]
        assert (guard.preset, guard.source) == (kind, "")
    late = Rule(conditions=(), count=2, of=4, after_step=6, action=GuardrailAction.PAUSE)
    assert rule_guard(late, "late", kind) == Guard(
        name="late", conditions=(), count=2, of=4, after_step=6, action=GuardrailAction.PAUSE, preset=kind
    )
    assert {(guard.source, guard.preset) for guard in preset("NonFinite")} == {("mine", kind)}


def test_what_verl_validates_is_a_validation_figure():
    assert is_validation_metric("val-core/gsm8k/reward/mean@1")
    assert is_validation_metric("validationReward")
    assert not is_validation_metric("critic/score/mean")
    assert not is_validation_metric(None)


def test_what_is_not_finite_does_not_widen_the_window():
    assert window(spec()) == 3
    assert window(spec(guardrails=[{"name": "n", "preset": "NonFinite", "failing": {"count": 3, "of": 50}}])) == 3
    often = {"name": "often", "conditions": [{"metric": "kl", "above": 1}], "failing": {"count": 2, "of": 9}}
    assert window(spec(guardrails=[often | {"action": "Rollback"}])) == 9


def hacking(validation, *, reward=lambda step: 0.2 + 0.01 * step, steps=100):
    """A run that leaves its reference, validated every ten steps."""
    history = []
    for step in range(1, steps + 1):
        history.append(row(step, kl=0.005 * step, rewardMean=reward(step)))
        if step % 10 == 0:
            history.append(row(step, RowKind.VALIDATION, validationReward=validation(step)))
    return assessed(preset("RewardHacking"), history)["mine"]


@pytest.mark.parametrize(
    ("validation", "breach_step"),
    [
        (lambda _: 0.4, 60),
        (lambda step: 0.4 - 0.001 * step, 60),
        (lambda step: 0.4 + 0.001 * min(step, 40), 80),
        (lambda step: 0.4 + 0.001 * step, None),
        (lambda step: 0.4 + 0.001 * step - 0.1 * (step == 60), None),
    ],
    ids=["flat", "falling", "flat from 40 on", "rising", "one dip"],
)
def test_reward_hacking_is_found_by_validations_that_rise_no_more(validation, breach_step):
    found = hacking(validation)
    assert (found.breach.step if found.breach else None) == breach_step


def test_a_reward_that_has_settled_is_not_hacking():
    assert hacking(lambda _: 0.4, reward=lambda _: 0.6).episodes == ()
