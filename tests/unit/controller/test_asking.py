"""Queries of guardrails: which are asked when, and what becomes of what is not answered."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from tests.support.builders import NOW, raw_guardrail, raw_spec, row
from tests.support.drive import Drive
from tests.support.scripts import healthy, runs_away
from tests.support.world import World
from tests.unit.controller.test_story import GUARDED, conditions

from ppojob_contract.journal import RowKind
from ppojob_operator.controller.asking import CELLS_A_QUERY, QUERIES_A_PASS, AskedQueries, ask
from ppojob_operator.errors import QueryRefused, QueryUnavailable

SECOND = timedelta(seconds=1)


@dataclass
class FakePrometheus:
    """`ports.Metrics` with one value for each cell."""

    value: float | None = 1.0
    at: Callable[[int], float] | None = None
    """Instead of the same value for all."""
    interval_seconds: float = 5.0
    error: Exception | None = None
    calls: list[tuple[str, int, int]] = field(default_factory=list)

    async def values(self, query: str, first: int, last: int) -> Mapping[int, float]:
        self.calls.append((query, first, last))
        if self.error is not None:
            raise self.error
        if self.at is not None:
            return {cell: self.at(cell) for cell in range(first, last + 1)}
        return {} if self.value is None else dict.fromkeys(range(first, last + 1), self.value)


def steps(*times: float):
    return {1: [row(int(time), kl=0.1) for time in times]}


async def test_a_row_is_asked_for_once_it_is_known_for_an_interval():
    prometheus, asked = FakePrometheus(), AskedQueries()
    assert (await ask(prometheus, ["q"], steps(7), asked, NOW)).results == {"q": {}}
    assert (await ask(prometheus, ["q"], steps(7), asked, NOW + 4 * SECOND)).results == {"q": {}}
    assert (await ask(prometheus, ["q"], steps(7), asked, NOW + 5 * SECOND)).results == {"q": {1: 1.0}}
    await ask(prometheus, ["q"], steps(7), asked, NOW + 60 * SECOND)
    assert prometheus.calls == [("q", 1, 1)], "and never again"


@pytest.mark.parametrize("rhythm", [1, 7, 100])
async def test_the_same_results_at_any_rhythm(rhythm):
    prometheus, asked = FakePrometheus(), AskedQueries()
    rows = [row(step, kl=0.1) for step in range(1, 101)]
    found = None
    for second in range(0, 300, rhythm):
        known = rows[: second + 1]
        found = await ask(prometheus, ["q"], {1: known}, asked, NOW + second * SECOND)
    assert found is not None
    assert found.results == {"q": dict.fromkeys(range(21), 1.0)}


async def test_much_to_catch_up_with_is_asked_in_few_queries():
    prometheus, asked = FakePrometheus(), AskedQueries()
    rows = {1: [row(step * 5, kl=0.1) for step in range(1, 2501)]}
    queries = [f"q{number}" for number in range(QUERIES_A_PASS + 2)]
    await ask(prometheus, queries, rows, asked, NOW)
    await ask(prometheus, queries, rows, asked, NOW + 5 * SECOND)
    assert len(prometheus.calls) == QUERIES_A_PASS
    assert {last - first for _, first, last in prometheus.calls} == {CELLS_A_QUERY - 1}
    for _ in range(10):
        found = await ask(prometheus, queries, rows, asked, NOW + 6 * SECOND)
    assert {len(result) for result in found.results.values()} == {2500}


async def test_nothing_and_a_refusal_are_results_but_silence_is_none():
    asked, prometheus = AskedQueries(), FakePrometheus(value=None)
    await ask(prometheus, ["q"], steps(7), asked, NOW)
    assert (await ask(prometheus, ["q"], steps(7), asked, NOW + 5 * SECOND)).results == {"q": {1: None}}
    asked, prometheus = AskedQueries(), FakePrometheus(error=QueryRefused("Prometheus: 400 parse error"))
    await ask(prometheus, ["q"], steps(7), asked, NOW)
    found = await ask(prometheus, ["q"], steps(7), asked, NOW + 5 * SECOND)
    assert (found.results, found.refusals) == ({"q": {1: None}}, {"q": "Prometheus: 400 parse error"})
    asked, prometheus = AskedQueries(), FakePrometheus(error=QueryUnavailable("Prometheus: no answer in time"))
    await ask(prometheus, ["q"], steps(7), asked, NOW)
    found = await ask(prometheus, ["q"], steps(7), asked, NOW + 400 * SECOND)
    assert (found.results, found.given_up) == ({"q": {}}, True)
    prometheus.error = None
    found = await ask(prometheus, ["q"], steps(7), asked, NOW + 401 * SECOND)
    assert (found.results, found.silence, found.given_up) == ({"q": {1: 1.0}}, "", False)


async def test_only_steps_are_asked_for_and_what_is_not_wanted_any_more_is_forgotten():
    prometheus, asked = FakePrometheus(), AskedQueries()
    validation = {1: [row(7, RowKind.VALIDATION)]}
    for second in (0, 5):
        assert (await ask(prometheus, ["q"], validation, asked, NOW + second * SECOND)).results == {"q": {}}
    assert (await ask(prometheus, [], validation, asked, NOW + 6 * SECOND)).results == {}
    assert prometheus.calls == []


# ---- the whole controller -----------------------------------------------------------------------------------------


def queried(**fields: object) -> dict[str, object]:
    return GUARDED | {"guardrails": [raw_guardrail(conditions=[{"promql": "q", "above": 0.5}], forSteps=1) | fields]}


async def test_a_guardrail_by_promql_rolls_back():
    world = World(runs_away(18), spec=queried())

    def scraped(cell: int) -> float:
        return next(item.values["kl"] for item in world.attempts[1].rows if item.time == cell and item.values)

    drive = Drive(world, metrics=FakePrometheus(at=scraped, interval_seconds=1.0))
    await drive.until(lambda world: world.status.get("rollbacks", 0) == 1)
    assert (world.status["rollbackMark"], world.status["intent"]["resume"]["step"]) == (18, 10)
    assert "q was 0.9 at step 18" in world.status["message"]


async def test_prometheus_without_a_value_is_never_a_breach():
    world = await Drive(World(healthy, spec=queried()), metrics=FakePrometheus(value=None)).to_the_end()
    assert (world.status["phase"], world.status["rollbacks"]) == ("Succeeded", 0)
    (told,) = [item for item in world.status["guardrails"] if item["name"] == "kl"]
    assert (told["verdict"], told["message"]) == ("Inconclusive", "not exactly one value at the newest step: q")


async def test_a_silent_prometheus_does_not_keep_a_run_from_its_end_for_ever():
    silent = FakePrometheus(error=QueryUnavailable("Prometheus: connection refused"))
    drive = Drive(World(healthy, spec=queried()), metrics=silent)
    await drive.until(lambda world: world.status.get("progress", {}).get("step") == 30)
    world = await drive.to_the_end(at_most=10)
    assert (world.status["phase"], world.status["rollbacks"]) == ("Succeeded", 0)
    assert conditions(world)["Healthy"] == ("Unknown", "Inconclusive")


async def test_without_prometheus_a_guardrail_by_promql_is_refused():
    drive = Drive(World(healthy, spec=raw_spec(guardrails=queried()["guardrails"])))
    for _ in range(3):
        await drive.step()
    assert drive.world.status["phase"] == "Invalid"
    (message,) = [item["message"] for item in drive.world.status["conditions"] if item["type"] == "Accepted"]
    assert "prometheus.url" in message
