"""A recorded run that went bad is decided the same, however often anybody looks."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.builders import raw_spec
from tests.support.replay import Ending, replay

from ppojob_contract.journal import Row, RowKind
from ppojob_contract.protocol import StepRow
from ppojob_operator.domain.guardrails.queries import Queries, cell

JOURNALS = Path(__file__).parents[2] / "data" / "journals"


def recorded(name: str) -> list[StepRow]:
    """A journal that a run of an example left on its claim."""
    lines = (JOURNALS / name).read_text(encoding="utf-8").splitlines()
    return [_told(Row.from_json(json.loads(line))) for line in lines]


def _told(line: Row) -> StepRow:
    values = {**line.figures, **line.verl}
    return StepRow(kind=line.kind, step=line.step, time=line.time, values=values, event=line.event)


# ---- the journal of a run that went bad ---------------------------------------------------------------------------

ADJUST = {"adjust": [{"parameter": "LearningRate", "multiply": 0.1}]}
BASE = raw_spec() | {
    "training": raw_spec()["training"] | {"totalSteps": 40},
    "checkpoints": {"everySteps": 5, "confirmSteps": 3},
    "rollback": ADJUST,
}


def one(**fields: object) -> list[dict[str, object]]:
    return [{"name": "kl", "action": "Rollback"} | fields]


KL = {"metric": "kl", "above": 0.2}
GUARDS = {
    "the example's": one(conditions=[KL], forSteps=3, afterStep=5),
    "so many of so many": one(conditions=[KL], failing={"count": 2, "of": 4}),
    "two conditions": one(
        conditions=[{"metric": "kl", "above": 0.1}, {"metric": "gradNorm", "above": 0.5}], forSteps=2
    ),
    "five times Confirmed": one(conditions=[{"metric": "kl", "relativeTo": "Confirmed", "ratio": 3}], forSteps=2),
    "far from the best": one(conditions=[{"metric": "kl", "relativeTo": "Best", "by": 0.2}], forSteps=2),
    "far from the start": one(conditions=[{"metric": "kl", "relativeTo": "Start", "ratio": 1.5}]),
    "above its median": one(conditions=[{"metric": "kl", "relativeTo": "Median", "ratio": 4}], forSteps=2),
    "paused": one(preset="KLRunaway", action="Pause", conditions=[KL]),
    "failed": one(conditions=[KL], forSteps=3, action="Fail"),
    "dry run": one(conditions=[KL], forSteps=3, dryRun=True),
    "by PromQL": one(conditions=[{"promql": "kl", "above": 0.2}], forSteps=2),
}


def slow_prometheus(known: Sequence[StepRow]) -> Queries:
    """Has the value of every row but those that came last."""
    interval = 5.0
    steps = [item for item in known if item.kind is RowKind.STEP]
    found = {cell(item.time, interval): item.values.get("kl") for item in steps[:-2]}
    return Queries(interval_seconds=interval, results={"kl": found})


def as_recorded(row: StepRow) -> StepRow:
    return row


def every_third_without_kl(row: StepRow) -> StepRow:
    kept = {name: value for name, value in row.values.items() if name != "kl" or row.step % 3}
    return replace(row, values=kept)


def gradients_break(row: StepRow) -> StepRow:
    """From step 12 on every second gradient is not finite."""
    broken = {"gradNorm": math.nan} if row.step >= 12 and row.step % 2 and row.values else {}
    return replace(row, values={**row.values, **broken})


Derive = Callable[[StepRow], StepRow]


def ended(guards: list[dict[str, object]], at_a_time: int, derive: Derive = as_recorded) -> Ending:
    rows = [derive(row) for row in recorded("rollback-1.jsonl")]
    # One that waits for Prometheus acts later than the default ones, which would make a rhythm of it.
    spec = BASE | {"guardrails": guards, "defaultGuardrails": not guards}
    return replay(rows, spec, at_a_time=at_a_time, answers=slow_prometheus)


@pytest.mark.parametrize("derive", [as_recorded, every_third_without_kl, gradients_break])
@pytest.mark.parametrize("name", GUARDS)
def test_a_recorded_run_is_decided_the_same_at_any_rhythm(name, derive):
    every_row = ended(GUARDS[name], 1, derive)
    assert ended(GUARDS[name], 7, derive) == every_row
    assert ended(GUARDS[name], 100, derive) == every_row


@pytest.mark.parametrize("name", GUARDS)
def test_each_of_them_finds_the_recorded_run_bad(name):
    ending = ended(GUARDS[name], 1)
    if name == "dry run":
        assert ending.intent is None
        assert [reason for reason, _ in ending.events] == ["RollbackDryRun"]
    else:
        assert ending.intent is not None


def test_the_example_goes_back_where_the_recorded_run_did():
    intent = ended(GUARDS["the example's"], 1).intent
    assert intent is not None
    kind, reason, guardrail, resume, message, _ = intent
    assert (kind, reason, guardrail) == ("Rollback", "GuardrailBreached", "kl")
    first = next(row for row in recorded("rollback-2.jsonl") if row.kind is RowKind.STEP)
    assert (resume.attempt, resume.step) == (1, first.step - 1)
    assert "at step 19" in message
    assert "bad since step 17" in message


def test_gradients_that_are_not_finite_act_by_default():
    intent = ended([], 1, gradients_break).intent
    assert intent is not None
    assert intent[2] == "NonFinite-gradients"
