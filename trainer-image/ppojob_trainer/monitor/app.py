"""The monitor's HTTP server: `ppojob_contract.protocol` over a `Job`."""

import asyncio
import errno
import hmac
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from ppojob_contract import names, protocol
from ppojob_contract.durable import read_json, write_json, write_json_once
from ppojob_contract.layout import AttemptLayout
from ppojob_contract.mailbox import CheckpointRef, Claimant, Command
from ppojob_contract.protocol import Steps
from ppojob_trainer.monitor import deletion
from ppojob_trainer.monitor.exposition import JobCollector
from ppojob_trainer.monitor.job import Job

LONGEST_WAIT_SECONDS = 60.0
LOOK_SECONDS = 0.2
"""Between two looks at a journal while a caller waits."""

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}

T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Problem(Exception):
    """Becomes an answer of status `status` with the text as its error."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Monitor:
    """Handlers. File access runs in a thread, one call at a time, so that a slow claim never stops `/healthz`."""

    def __init__(self, job: Job, token_file: Path = Path(names.TOKEN_FILE)) -> None:
        self._job = job
        self._token_file = token_file
        self._one_at_a_time = asyncio.Lock()
        self._registry = CollectorRegistry()
        self._registry.register(JobCollector(job))
        self._clearing = asyncio.Lock()
        self._clearings: set[asyncio.Task[None]] = set()

    def app(self) -> web.Application:
        app = web.Application(middlewares=[_problems_as_json], client_max_size=64 * 1024)
        app.add_routes(
            [
                web.get(protocol.HEALTH_PATH, self.health),
                web.get(protocol.METRICS_PATH, self.metrics),
                web.get(protocol.STATE_PATH, self.state),
                web.get(protocol.STEPS_PATH, self.steps),
                web.put(protocol.COMMAND_PATH, self._authorized(self.put_command)),
                web.put(protocol.CLAIM_PATH, self._authorized(self.put_claim)),
                web.put(protocol.CONFIRMED_PATH, self._authorized(self.put_confirmed)),
                web.post(protocol.DELETE_PATH, self._authorized(self.delete)),
            ]
        )
        app.on_startup.append(self._clear_away)
        return app

    async def health(self, request: web.Request) -> web.Response:
        del request
        return web.json_response({"status": "ok"})

    async def metrics(self, request: web.Request) -> web.Response:
        del request
        text = await self._in_thread(lambda: generate_latest(self._registry))
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def state(self, request: web.Request) -> web.Response:
        del request
        return web.json_response((await self._in_thread(self._job.state)).to_json())

    async def steps(self, request: web.Request) -> web.Response:
        """Answers at once where there are rows, else when one comes or `wait` seconds have passed."""
        attempt, after = _integer(request, "attempt"), _integer(request, "after", 0)
        metrics = [name for name in request.query.get("metrics", "").split(",") if name]
        wait = min(_seconds(request, "wait"), LONGEST_WAIT_SECONDS)
        deadline = time.monotonic() + wait
        while True:
            rows = await self._in_thread(lambda: self._job.rows(attempt, after, metrics))
            if rows or time.monotonic() >= deadline:
                break
            await asyncio.sleep(LOOK_SECONDS)
        identity = self._job.identity
        answer = Steps(job_uid=identity.uid, pod_uid=identity.pod_uid, attempt=attempt, after=after, rows=tuple(rows))
        return web.json_response(answer.to_json())

    async def put_command(self, request: web.Request) -> web.Response:
        layout = self._existing_attempt(request)
        try:
            command = Command.from_json(await request.json())
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Problem(400, f"not a command: {error}") from error
        status, body = await self._in_thread(lambda: _put_command(layout, command))
        return web.json_response(body, status=status)

    async def put_claim(self, request: web.Request) -> web.Response:
        """Revokes the command, unless the trainer has taken it; says who has it."""
        layout = self._existing_attempt(request)

        def claim() -> Any:
            write_json_once(layout.claim, {"by": Claimant.MONITOR.value})
            return read_json(layout.claim)["by"]  # type: ignore[index]

        return web.json_response({"claimedBy": await self._in_thread(claim)})

    async def put_confirmed(self, request: web.Request) -> web.Response:
        refs = await _checkpoints(request)
        body = {"checkpoints": [ref.to_json() for ref in refs]}
        await self._in_thread(lambda: write_json(self._job.layout.confirmed, body))
        return web.json_response(body)

    async def delete(self, request: web.Request) -> web.Response:
        """Answers as soon as nobody takes them for checkpoints any more; freeing their space can take minutes."""
        refs = await _checkpoints(request)
        answer = await self._in_thread(lambda: deletion.delete(self._job, refs))
        await self._clear_away()
        return web.json_response(answer.to_json())

    async def _clear_away(self, _app: web.Application | None = None) -> None:
        """Frees space in the background, beside the other calls: nobody reads what is cleared away."""

        async def clear() -> None:
            async with self._clearing:
                await asyncio.to_thread(deletion.clear_away, self._job.layout)

        task = asyncio.create_task(clear())
        self._clearings.add(task)
        task.add_done_callback(self._clearings.discard)

    async def cleared(self) -> None:
        """Once nothing is being cleared away."""
        await asyncio.gather(*self._clearings)

    def _existing_attempt(self, request: web.Request) -> AttemptLayout:
        number = _integer(request, "attempt")
        layout = self._job.layout.attempt(number)
        if not layout.folder.is_dir():
            raise Problem(404, f"there is no attempt {number}")
        return layout

    def _authorized(self, handler: Handler) -> Handler:
        """The token is read anew for each request: a rotated Secret needs no restart."""

        async def checked(request: web.Request) -> web.StreamResponse:
            scheme, _, given = request.headers.get("Authorization", "").partition(" ")
            try:
                expected = self._token_file.read_text(encoding="utf-8").strip()
            except OSError as error:
                raise Problem(401, "the monitor has no token") from error
            right = hmac.compare_digest(given.strip().encode(), expected.encode())
            if scheme != "Bearer" or not expected or not right:
                raise Problem(401, "not the job's token")
            return await handler(request)

        return checked

    async def _in_thread(self, call: Callable[[], T]) -> T:
        async with self._one_at_a_time:
            return await asyncio.to_thread(call)


def _put_command(layout: AttemptLayout, command: Command) -> tuple[int, dict[str, Any]]:
    """The same command again is fine at any time; the slot is never emptied."""
    there: dict[str, Any] | None = read_json(layout.command)
    if there is None:
        if layout.outcome.exists():
            raise Problem(410, "the attempt has ended")
        if write_json_once(layout.command, command.to_json()):
            return 201, command.to_json()
        there = read_json(layout.command)
    assert there is not None
    return (200 if there["id"] == command.id else 409), there


@web.middleware
async def _problems_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except Problem as problem:
        return web.json_response({"error": str(problem)}, status=problem.status)
    except web.HTTPException as error:
        return web.json_response({"error": error.reason}, status=error.status)
    except OSError as error:
        status = 507 if error.errno in _FULL else 500
        return web.json_response({"error": f"{type(error).__name__}: {error.strerror}"}, status=status)


async def _checkpoints(request: web.Request) -> list[CheckpointRef]:
    try:
        return [CheckpointRef.from_json(item) for item in (await request.json())["checkpoints"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Problem(400, f"not a list of checkpoints: {error}") from error


def _integer(request: web.Request, name: str, default: int | None = None) -> int:
    text = request.query.get(name)
    if text is None and default is not None:
        return default
    if text is None or not text.isdecimal():
        raise Problem(400, f"{name} must be a whole number")
    return int(text)


def _seconds(request: web.Request, name: str) -> float:
    text = request.query.get(name, "0")
    try:
        value = float(text)
    except ValueError as error:
        raise Problem(400, f"{name} must be a number of seconds") from error
    if not 0 <= value < float("inf"):
        raise Problem(400, f"{name} must be a number of seconds")
    return value
