"""What a trial takes over from its job."""

import pytest
from tests.support.builders import raw_guardrail, spec

from ppojob_operator.api.v1alpha1.spec import PPOJobSpec, Trial
from ppojob_operator.domain.guardrails.guards import guards_of
from ppojob_operator.domain.pipeline.trial import trial_spec


def tried(steps: int, **guardrail: object) -> PPOJobSpec:
    job = spec(guardrails=[raw_guardrail(**guardrail)], defaultGuardrails=False)
    return PPOJobSpec.model_validate(trial_spec(job, Trial(steps=steps)))


@pytest.mark.parametrize(
    ("guardrail", "expected"),
    [
        ({"afterStep": 15}, 2),
        ({"afterStep": 2}, 2),
        ({"afterStep": 1}, 1),
        ({"afterStep": 15, "forSteps": None, "failing": {"count": 4, "of": 9}}, 1),
        ({"afterStep": 15, "forSteps": 9}, 0),
        ({"preset": "ValueDivergence", "conditions": None, "forSteps": None}, 4),
        ({"preset": "GradientExplosion", "conditions": None, "forSteps": None}, 2),
    ],
)
def test_a_guardrail_is_judged_early_enough_to_be_breached(guardrail, expected):
    (found,) = guards_of(tried(5, **guardrail))
    assert found.after_step == expected


@pytest.mark.parametrize("dry", [True, False])
def test_what_is_dry_stays_dry(dry):
    (found,) = guards_of(tried(5, dryRun=dry))
    assert (found.dry_run, found.acts) == (dry, not dry)
