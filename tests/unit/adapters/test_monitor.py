"""The monitor adapter against a real HTTP server that speaks the protocol."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from ppojob_contract.journal import RowKind
from ppojob_contract.mailbox import CheckpointRef, Claimant, Command, CommandKind
from ppojob_contract.protocol import Deletion, LockState, Refusal, State, StepRow, Steps
from ppojob_operator.adapters import monitor as adapter
from ppojob_operator.adapters.monitor import HttpMonitor
from ppojob_operator.errors import MonitorRefused, MonitorUnavailable
from ppojob_operator.ports import Endpoint, Key

KEY = Key("ns", "job", "uid-1")
ENDPOINT = Endpoint(host="127.0.0.1", key=KEY, token="secret-token")
STOP = Command(id="c-1", kind=CommandKind.STOP)
STATE = State(job_uid="uid-1", pod_uid="pod-1", lock=LockState.FREE, attempts=(), checkpoints=(), confirmed=())
ROW = StepRow(kind=RowKind.STEP, step=4, time=1.0, values={"kl": 0.5})
STEPS = Steps(job_uid="uid-1", pod_uid="pod-1", attempt=1, after=3, rows=(ROW,))

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler, *, largest: int = 10_000) -> AsyncIterator[HttpMonitor]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    client = HttpMonitor(port=runner.addresses[0][1], largest_answer=largest)
    try:
        yield client
    finally:
        await client.close()
        await runner.cleanup()


def answering(body: object, status: int = 200, seen: list[web.Request] | None = None) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        if seen is not None:
            await request.read()
            seen.append(request)
        return web.json_response(body, status=status)

    return handler


async def test_state_is_read() -> None:
    async with serving(answering(STATE.to_json())) as client:
        assert await client.state(ENDPOINT) == STATE


async def test_steps_carry_what_was_asked_for() -> None:
    seen: list[web.Request] = []
    async with serving(answering(STEPS.to_json(), seen=seen)) as client:
        assert await client.steps(ENDPOINT, 1, 3, metrics=("kl", "actor/lr"), wait_seconds=2.5) == STEPS
    assert dict(seen[0].query) == {"attempt": "1", "after": "3", "metrics": "kl,actor/lr", "wait": "2.5"}
    assert "Authorization" not in seen[0].headers


async def test_another_jobs_monitor_is_no_answer() -> None:
    """The pod's address was given to another job's pod."""
    async with serving(answering(STATE.to_json() | {"jobUID": "uid-2"})) as client:
        with pytest.raises(MonitorUnavailable, match="another job's monitor"):
            await client.state(ENDPOINT)


async def test_command_is_put_with_the_token() -> None:
    seen: list[web.Request] = []
    async with serving(answering(STOP.to_json(), 201, seen)) as client:
        assert await client.put_command(ENDPOINT, 7, STOP) == STOP
    assert seen[0].headers["Authorization"] == "Bearer secret-token"
    assert (seen[0].method, seen[0].path, seen[0].query["attempt"]) == ("PUT", "/v1/command", "7")
    assert await seen[0].json() == STOP.to_json()


async def test_the_first_command_wins() -> None:
    other = Command(id="c-0", kind=CommandKind.ROLLBACK, target=CheckpointRef(attempt=1, step=10), next_attempt=2)
    async with serving(answering(other.to_json(), 409)) as client:
        assert await client.put_command(ENDPOINT, 1, STOP) == other


async def test_an_ended_attempt_refuses() -> None:
    async with serving(answering({"error": "attempt 1 has ended"}, 410)) as client:
        with pytest.raises(MonitorRefused, match="attempt 1 has ended"):
            await client.put_command(ENDPOINT, 1, STOP)


async def test_revoke_says_who_owns_the_command() -> None:
    async with serving(answering({"claimedBy": "Trainer"})) as client:
        assert await client.revoke(ENDPOINT, 1) is Claimant.TRAINER


async def test_confirmed_checkpoints_are_put() -> None:
    seen: list[web.Request] = []
    async with serving(answering({}, 200, seen)) as client:
        await client.put_confirmed(ENDPOINT, [CheckpointRef(attempt=1, step=10)])
    assert await seen[0].json() == {"checkpoints": [{"attempt": 1, "step": 10}]}


async def test_deletions_are_asked_for_with_the_token() -> None:
    seen: list[web.Request] = []
    refused = Refusal(ref=CheckpointRef(attempt=1, step=20), reason="it is the newest complete checkpoint")
    answer = Deletion(deleted=(CheckpointRef(attempt=1, step=10),), refused=(refused,))
    async with serving(answering(answer.to_json(), seen=seen)) as client:
        refs = [CheckpointRef(attempt=1, step=10), CheckpointRef(attempt=1, step=20)]
        assert await client.delete_checkpoints(ENDPOINT, refs) == answer
    assert (seen[0].method, seen[0].path) == ("POST", "/v1/delete")
    assert seen[0].headers["Authorization"] == "Bearer secret-token"
    assert await seen[0].json() == {"checkpoints": [{"attempt": 1, "step": 10}, {"attempt": 1, "step": 20}]}


async def test_nothing_is_changed_without_a_token() -> None:
    async with serving(answering({})) as client:
        with pytest.raises(MonitorUnavailable, match="token"):
            await client.revoke(Endpoint(host="127.0.0.1", key=KEY), 1)


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ({"error": "the claim\ncannot be written"}, 507, "507 the claim cannot be written"),
        ({"error": "who are you"}, 401, "401 who are you"),
        (["no", "monitor"], 200, "not the answer of a monitor"),
        ({"jobUID": "uid-1"}, 200, "not the answer of a monitor"),
        ("text", 500, "500"),
        (None, 200, "not the answer of a monitor"),
    ],
)
async def test_unusable_answers_are_unavailable(body: object, status: int, told: str) -> None:
    async with serving(answering(body, status)) as client:
        with pytest.raises(MonitorUnavailable, match=told):
            await client.state(ENDPOINT)


async def test_what_is_no_json_is_unavailable() -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(text="<html>", status=200)

    async with serving(handler) as client:
        with pytest.raises(MonitorUnavailable, match="no JSON"):
            await client.state(ENDPOINT)


async def test_an_endless_answer_is_cut() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(100):
            await response.write(b"x" * 1000)
        return response

    async with serving(handler, largest=10_000) as client:
        with pytest.raises(MonitorUnavailable, match="more than 10000 bytes"):
            await client.state(ENDPOINT)


async def test_redirects_are_not_followed() -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.json_response({}, status=302, headers={"Location": "http://127.0.0.1:1/"})

    async with serving(handler) as client:
        with pytest.raises(MonitorUnavailable, match="302"):
            await client.state(ENDPOINT)


async def test_nobody_there_is_unavailable() -> None:
    async with serving(answering({})) as client:
        pass
    with pytest.raises(MonitorUnavailable, match="monitor of ns/job"):
        await client.state(ENDPOINT)
    await client.close()


async def test_a_monitor_that_hangs_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handler(_: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    monkeypatch.setattr(adapter, "_ANSWER_SECONDS", 0.1)
    async with serving(handler) as client:
        with pytest.raises(MonitorUnavailable, match="no answer in time"):
            await client.state(ENDPOINT)


def test_the_token_is_not_printed() -> None:
    assert "secret-token" not in repr(ENDPOINT)
