"""PromQL of guardrails along the rows: what was not asked yet, what has no value, and who waits for it."""

from tests.support.builders import guard, row, rows
from tests.support.judging import judge_rows

from ppojob_contract.journal import CHECKPOINT_SAVED, RowKind
from ppojob_contract.protocol import StepRow
from ppojob_operator.api.v1alpha1.status import Verdict
from ppojob_operator.domain.guardrails.guards import Guard
from ppojob_operator.domain.guardrails.queries import Queries, cell
from ppojob_operator.domain.guardrails.readings import UNASKED

ASKS = guard(name="asks", conditions=[{"promql": "up", "above": 1}], forSteps=1)
COMPARED = guard(conditions=[{"metric": "kl", "relativeTo": "Confirmed", "ratio": 5}], action="Warn")


def answers(known: dict[int, float | None]) -> Queries:
    return Queries(interval_seconds=1.0, results={"up": known})


def judged(guards: list[Guard], history: list[StepRow], known: dict[int, float | None]):
    return judge_rows(guards, [(1, item) for item in history], attempt=1, window=3, results=answers(known).at)


def test_a_rows_time_falls_into_a_cell_of_the_scrape_interval():
    assert [cell(time, 15.0) for time in (0.0, 14.9, 15.0, 29.9, 30.0)] == [0, 0, 1, 1, 2]
    asked = Queries(interval_seconds=15.0, results={"up": {1: 3.0, 2: None}})
    found = [asked.at("up", StepRow(kind=RowKind.STEP, step=1, time=time, values={})) for time in (14.0, 16.0, 31.0)]
    assert found == [UNASKED, 3.0, None]
    assert asked.at("down", row(1)) is UNASKED


def test_a_query_without_a_value_is_inconclusive_and_named():
    (found,) = judged([ASKS], rows([0.1] * 2), {1: 2.0, 2: None}).assessments
    assert (found.verdict, found.no_result, found.step) == (Verdict.INCONCLUSIVE, "up", 1)
    (again,) = judged([ASKS], rows([0.1] * 3), {1: 2.0, 2: None, 3: 0.0}).assessments
    assert (again.verdict, again.no_result, again.step) == (Verdict.HEALTHY, None, 3)


def test_nothing_behind_a_row_that_waits_is_judged():
    found = judged([ASKS], rows([0.1] * 3), {1: 0.0, 3: 2.0})
    assert found.pending
    assert (found.assessments[0].step, found.assessments[0].breach) == (1, None)
    assert not judged([ASKS], rows([0.1] * 3), {1: 0.0, 2: 0.0, 3: 0.0}).pending


def test_what_is_compared_with_confirmed_waits_with_a_rollback_guardrail():
    history = rows([0.1] * 20)
    history.insert(10, StepRow(kind=RowKind.EVENT, step=10, time=0.0, values={}, event=CHECKPOINT_SAVED))
    known: dict[int, float | None] = dict.fromkeys(range(1, 15), 0.0)
    found = judged([COMPARED, ASKS], history, known)
    assert found.assessments[0].step == 15, "that the row waits is known behind it"
    warns = guard(name="asks", conditions=[{"promql": "up", "above": 1}], action="Warn")
    assert judged([COMPARED, warns], history, known).assessments[0].step == 20
