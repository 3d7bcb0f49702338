"""What of `spec.checkpoints` is refused or warned of."""

from typing import Any

import pytest
from tests.support.builders import raw_spec

from ppojob_operator.domain.acceptance import judge


def judged(*, validate: int = 10, **checkpoints: Any) -> tuple[dict[str, str], dict[str, str]]:
    training = raw_spec()["training"] | {"validateEverySteps": validate}
    _, problems, warnings = judge(raw_spec(training=training, checkpoints={"everySteps": 10} | checkpoints))
    return {item.field: item.message for item in problems}, {item.field: item.message for item in warnings}


@pytest.mark.parametrize("metric", ["rewardMean", "kl", "actor/lr", "validationRewrad"])
def test_the_best_is_chosen_by_a_validation_figure(metric: str) -> None:
    problems, _ = judged(keepBest={"metric": metric})
    assert "validationReward" in problems["spec.checkpoints.keepBest.metric"]


def test_the_best_needs_validations() -> None:
    problems, _ = judged(validate=0, keepBest={"metric": "validationReward"})
    assert "validateEverySteps" in problems["spec.checkpoints.keepBest.metric"]


@pytest.mark.parametrize(
    ("validate", "told"), [(5, None), (10, None), (15, "every 30th step"), (20, "every 20th step")]
)
def test_checkpoints_that_are_never_validated_are_told_of(validate: int, told: str | None) -> None:
    problems, warnings = judged(validate=validate, keepBest={"metric": "val-core/gsm8k/reward/mean@1"})
    assert not problems
    warned = warnings.get("spec.checkpoints.keepBest")
    assert warned is None if told is None else told in (warned or "")


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({}, ""),
        ({"job": "a", "path": "/ppojob/storage/global_step_5"}, ""),
        ({"path": "/ppojob/storage/global_step_5", "step": 5}, ".step"),
        ({"path": "global_step_5"}, ".path"),
        ({"path": "/ppojob/storage/run/latest"}, ".path"),
        ({"path": "/ppojob/storage/../secret/global_step_5"}, ".path"),
        ({"job": "No_Name"}, ".job"),
    ],
)
def test_a_job_begins_from_one_checkpoint(wrong: dict[str, Any], field: str) -> None:
    problems, _ = judged(resumeFrom=wrong)
    assert list(problems) == [f"spec.checkpoints.resumeFrom{field}"]


@pytest.mark.parametrize("wrong", [{"keepLast": 1}, {"keepBest": {"count": 0}}, {"keepBest": {"goal": "Best"}}])
def test_numbers_and_words_out_of_range(wrong: dict[str, Any]) -> None:
    problems, _ = judged(**wrong)
    assert len(problems) == 1
    assert next(iter(problems)).startswith("spec.checkpoints.keep")
