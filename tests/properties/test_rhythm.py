"""The decisions about a run do not depend on how often anybody looks."""

import math
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.builders import raw_spec, row
from tests.support.judging import judge_rows
from tests.support.replay import replay

from ppojob_contract.journal import CHECKPOINT_SAVED, RowKind
from ppojob_contract.protocol import StepRow
from ppojob_operator.api.v1alpha1.guardrails import Guardrail, Reference
from ppojob_operator.api.v1alpha1.spec import PPOJobSpec
from ppojob_operator.domain.guardrails.guards import Guard, expand
from ppojob_operator.domain.guardrails.kept import Basis, Kept
from ppojob_operator.domain.guardrails.queries import Queries
from ppojob_operator.domain.lineage import Segment

BASE = raw_spec() | {
    "training": raw_spec()["training"] | {"totalSteps": 40, "validateEverySteps": 5},
    "checkpoints": {"everySteps": 5, "confirmSteps": 3},
    "rollback": {"adjust": [{"parameter": "LearningRate", "multiply": 0.1}]},
}

numbers = st.sampled_from([0.0, 0.1, 0.2, 0.3, 1.0, -1.0, float("nan"), float("inf")])
figures = st.fixed_dictionaries({}, optional={"kl": numbers, "rewardMean": numbers})


@st.composite
def journals(draw: st.DrawFn) -> list[StepRow]:
    found = []
    for step in range(1, draw(st.integers(5, 40)) + 1):
        found.append(row(step, **draw(figures)))
        if draw(st.integers(0, 5)) == 0:
            found.append(row(step, RowKind.VALIDATION, **draw(st.fixed_dictionaries({"validationReward": numbers}))))
        if step % 4 == 0:
            found.append(StepRow(kind=RowKind.EVENT, step=step, time=float(step), values={}, event=CHECKPOINT_SAVED))
    return found


absolute = st.fixed_dictionaries(
    {"metric": st.sampled_from(["kl", "rewardMean", "validationReward"]), "above": st.sampled_from([0.0, 0.15, 0.5])}
)
queried = st.just({"promql": "q", "below": 0.15})
relative = st.builds(
    lambda metric, to, how: {"metric": metric, "relativeTo": to.value, **how},
    st.sampled_from(["kl", "validationReward"]),
    st.sampled_from(Reference),
    st.sampled_from([{"ratio": 1.5}, {"ratio": 0.5}, {"by": 0.1}, {"by": -0.1}, {"by": 0.1, "bad": "Below"}]),
)
counts = st.sampled_from([{}, {"forSteps": 2}, {"failing": {"count": 2, "of": 3}}])


@st.composite
def guardrails(draw: st.DrawFn) -> list[dict[str, object]]:
    """All with a query or all without: one that waits for Prometheus is later than one that does not."""
    asks = [draw(queried)] if draw(st.booleans()) else []
    return [
        {
            "name": f"g{index}",
            "conditions": [*asks, *draw(st.lists(absolute | relative, min_size=1, max_size=3))],
            "action": draw(st.sampled_from(["Warn", "Rollback", "Pause", "Fail"])),
            "dryRun": draw(st.booleans()),
            "afterStep": draw(st.integers(0, 5)),
            **draw(counts),
        }
        for index in range(draw(st.integers(1, 3)))
    ]


def answered(known: Sequence[StepRow]) -> Queries:
    steps = [item for item in known if item.kind is RowKind.STEP][:-3]
    return Queries(interval_seconds=1.0, results={"q": {int(item.time): _answer(item.step) for item in steps}})


def _answer(step: int) -> float | None:
    return None if step % 5 == 0 else (step % 3) / 10


@settings(max_examples=40)
@given(journals(), guardrails(), st.lists(st.integers(1, 12), min_size=1, max_size=10))
def test_any_run_is_decided_the_same_at_any_rhythm(rows, guards, chunks):
    # Nobody knows how long Prometheus takes: what is known in the end is known to all.
    spec = BASE | {"guardrails": guards}
    patient = [*chunks, *([len(rows)] * 2)]
    one_by_one = replay(rows, spec, at_a_time=1, answers=answered)
    assert replay(rows, spec, at_a_time=patient, answers=answered) == one_by_one


def expanded(guards: list[dict[str, object]]) -> list[Guard]:
    return [guard for item in guards for guard in expand(Guardrail.model_validate(item))]


@settings(max_examples=40)
@given(journals(), guardrails(), st.integers(0, 60))
def test_what_later_rows_bring_changes_nothing_that_was_said_before(rows, guards, cut):
    """Breaches of a part of the rows are the first breaches of all of them."""
    found = expanded(guards)

    def judged(known: Sequence[StepRow]):
        return judge_rows(
            found, [(1, item) for item in known], attempt=1, window=3, results=answered(rows).at
        ).assessments

    for part, whole in zip(judged(rows[:cut]), judged(rows), strict=True):
        assert whole.episodes[: len(part.episodes)] == part.episodes
        assert part.breach is None or part.breach == whole.breach


@settings(max_examples=40)
@given(journals(), guardrails())
def test_nothing_absent_and_no_silence_is_ever_a_breach(rows, guards):
    """A guardrail of which no condition has a figure never says anything."""
    found = expanded(guards)
    silent = [StepRow(kind=item.kind, step=item.step, time=item.time, values={}, event=item.event) for item in rows]
    judged = judge_rows(found, [(1, item) for item in silent], attempt=1, window=3, results=lambda *_: None)
    assert [item.episodes for item in judged.assessments] == [()] * len(found)


@settings(max_examples=40)
@given(journals(), guardrails(), st.lists(st.integers(0, 12), max_size=6))
def test_a_fold_that_goes_on_comes_to_the_same_as_one_that_begins_anew(rows, guards, chunks):
    known_spec = PPOJobSpec.model_validate(BASE | {"guardrails": guards})
    segments = (Segment(1, 0, 20), Segment(2, 20, math.inf))
    basis = Basis(spec=known_spec, attempt=2, grace_through=0, segments=segments)
    both = {1: rows, 2: [item for item in rows if item.step > 20]}
    kept, known = Kept(), 0
    for chunk in [*chunks, len(rows)]:
        known += chunk
        found = kept.judge(basis, {1: rows, 2: both[2][:known]}, answered(rows).at)
    fresh = Kept().judge(basis, both, answered(rows).at)
    assert (found.assessments, found.clean, found.pending) == (fresh.assessments, fresh.clean, fresh.pending)
