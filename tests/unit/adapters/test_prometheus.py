"""The Prometheus adapter against an HTTP server that answers what it is told to."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from ppojob_operator.adapters.prometheus import HttpPrometheus
from ppojob_operator.errors import QueryRefused, QueryUnavailable


@asynccontextmanager
async def prometheus(
    answer: Any, status: int = 200, asked: list[Mapping[str, Any]] | None = None
) -> AsyncIterator[Any]:
    async def query(request: web.Request) -> web.Response:
        if asked is not None:
            asked.append(dict(await request.post()))
        if isinstance(answer, str):
            return web.Response(text=answer, status=status)
        return web.json_response(answer, status=status)

    app = web.Application()
    app.add_routes([web.post("/prefix/api/v1/query_range", query)])
    async with TestServer(app) as server:
        client = HttpPrometheus(str(server.make_url("/prefix/")), interval_seconds=5)
        yield client
        await client.close()


def matrix(*series: list[tuple[float, str]]) -> dict[str, Any]:
    result = [{"metric": {}, "values": [[time, value] for time, value in one]} for one in series]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


async def test_asks_for_a_range_on_the_grid_that_no_old_sample_answers():
    asked: list[Mapping[str, Any]] = []
    async with prometheus(matrix([(50, "0.25"), (55, "+Inf")]), asked=asked) as client:
        assert await client.values("up > 0", 10, 12) == {10: 0.25, 11: float("inf")}
    assert asked == [
        {"query": "up > 0", "start": "50.000", "end": "60.000", "step": "5", "lookback_delta": "10", "limit": "100"}
    ]


async def test_several_values_and_no_number_are_no_value():
    answer = matrix([(50, "1"), (55, "1"), (60, "NaN")], [(50, "2"), (65, "3")])
    async with prometheus(answer) as client:
        assert await client.values("q", 10, 13) == {11: 1.0, 13: 3.0}


@pytest.mark.parametrize("status", [400, 422])
async def test_a_query_that_prometheus_refuses(status):
    async with prometheus({"status": "error", "error": "parse error: bad"}, status) as client:
        with pytest.raises(QueryRefused, match="parse error: bad"):
            await client.values("q(", 1, 2)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ("not JSON", 200),
        ({"status": "error"}, 503),
        ({"data": {}}, 200),
        ({"data": {"result": [{"values": [["x", "y"]]}]}}, 200),
    ],
)
async def test_no_usable_answer(answer, status):
    async with prometheus(answer, status) as client:
        with pytest.raises(QueryUnavailable):
            await client.values("q", 1, 2)


async def test_nobody_there():
    client = HttpPrometheus("http://127.0.0.1:1", interval_seconds=5)
    with pytest.raises(QueryUnavailable, match="Prometheus"):
        await client.values("q", 1, 2)
    await client.close()


async def test_an_answer_that_is_too_large_is_the_querys_fault():
    async with prometheus("x" * (5 * 2**20)) as client:
        with pytest.raises(QueryRefused, match="more than"):
            await client.values("q", 1, 2)
