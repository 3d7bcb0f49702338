"""`ports.Monitor` over HTTP, as `ppojob_contract.protocol` defines it."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TypeVar

import aiohttp

from ppojob_contract import protocol
from ppojob_contract.mailbox import CheckpointRef, Claimant, Command
from ppojob_contract.names import MONITOR_PORT
from ppojob_contract.protocol import Deletion, State, Steps
from ppojob_operator.errors import MonitorRefused, MonitorUnavailable
from ppojob_operator.ports import Endpoint

Parsed = TypeVar("Parsed")

_CONNECT_SECONDS: Final = 3.0
_ANSWER_SECONDS: Final = 15.0
_LARGEST: Final = 64 * 2**20
"""Bytes of an answer: 100,000 rows of a dozen figures fit; a broken monitor cannot fill the memory."""
_CHUNK: Final = 2**16
_OK: Final = frozenset({HTTPStatus.OK.value, HTTPStatus.CREATED.value, HTTPStatus.NO_CONTENT.value})


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: Any


class HttpMonitor:
    """Calls monitors on their pods' addresses. One for all jobs; `close` it at the end."""

    def __init__(self, *, port: int = MONITOR_PORT, largest_answer: int = _LARGEST) -> None:
        self._port = port
        self._largest = largest_answer
        self._open: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._open is not None:
            await self._open.close()
            self._open = None

    async def state(self, endpoint: Endpoint) -> State:
        answer = await self._call(endpoint, "GET", protocol.STATE_PATH)
        state = _parse(endpoint, State.from_json, answer.body)
        _require_owner(endpoint, state.job_uid)
        return state

    async def steps(
        self, endpoint: Endpoint, attempt: int, after: int, *, metrics: Sequence[str], wait_seconds: float = 0.0
    ) -> Steps:
        query = {"attempt": str(attempt), "after": str(after), "metrics": ",".join(metrics)}
        if wait_seconds > 0:
            query["wait"] = f"{wait_seconds:g}"
        answer = await self._call(endpoint, "GET", protocol.STEPS_PATH, query=query, patience=wait_seconds)
        steps = _parse(endpoint, Steps.from_json, answer.body)
        _require_owner(endpoint, steps.job_uid)
        return steps

    async def put_command(self, endpoint: Endpoint, attempt: int, command: Command) -> Command:
        answer = await self._change(
            endpoint, protocol.COMMAND_PATH, command.to_json(), attempt=attempt, accept=frozenset({HTTPStatus.CONFLICT})
        )
        return _parse(endpoint, Command.from_json, answer.body)

    async def revoke(self, endpoint: Endpoint, attempt: int) -> Claimant:
        answer = await self._change(endpoint, protocol.CLAIM_PATH, {}, attempt=attempt)
        return _parse(endpoint, lambda body: Claimant(body["claimedBy"]), answer.body)

    async def put_confirmed(self, endpoint: Endpoint, checkpoints: Sequence[CheckpointRef]) -> None:
        await self._change(endpoint, protocol.CONFIRMED_PATH, {"checkpoints": [item.to_json() for item in checkpoints]})

    async def delete_checkpoints(self, endpoint: Endpoint, checkpoints: Sequence[CheckpointRef]) -> Deletion:
        body = {"checkpoints": [item.to_json() for item in checkpoints]}
        answer = await self._change(endpoint, protocol.DELETE_PATH, body, method="POST")
        return _parse(endpoint, Deletion.from_json, answer.body)

    async def _change(
        self,
        endpoint: Endpoint,
        path: str,
        body: dict[str, Any],
        *,
        method: str = "PUT",
        attempt: int | None = None,
        accept: frozenset[int] = frozenset(),
    ) -> _Answer:
        """Changes something. The token proves who asks; it is also what keeps another job's monitor from obeying."""
        if endpoint.token is None:
            raise MonitorUnavailable(f"{_name(endpoint)}: its token is not there yet")
        query = {} if attempt is None else {"attempt": str(attempt)}
        return await self._call(endpoint, method, path, query=query, body=body, accept=accept)

    async def _call(
        self,
        endpoint: Endpoint,
        method: str,
        path: str,
        *,
        query: dict[str, str] | None = None,
        body: dict[str, Any] | None = None,
        accept: frozenset[int] = frozenset(),
        patience: float = 0.0,
    ) -> _Answer:
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        headers = {} if endpoint.token is None or body is None else {"Authorization": f"Bearer {endpoint.token}"}
        timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS + patience, sock_connect=_CONNECT_SECONDS)
        try:
            async with self._session().request(
                method,
                f"http://{host}:{self._port}{path}",
                params=query,
                json=body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                raw = await self._read(endpoint, response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            reason = "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
            raise MonitorUnavailable(f"{_name(endpoint)}: {reason}") from error
        return _judge(endpoint, response.status, raw, accept)

    async def _read(self, endpoint: Endpoint, response: aiohttp.ClientResponse) -> bytes:
        parts, size = [], 0
        async for part in response.content.iter_chunked(_CHUNK):
            size += len(part)
            if size > self._largest:
                raise MonitorUnavailable(f"{_name(endpoint)}: an answer of more than {self._largest} bytes")
            parts.append(part)
        return b"".join(parts)

    def _session(self) -> aiohttp.ClientSession:
        """Made in the running loop, at the first call. No cookies, no redirects off to other hosts, no proxies."""
        if self._open is None:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60)
            self._open = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._open


def _judge(endpoint: Endpoint, status: int, raw: bytes, accept: frozenset[int]) -> _Answer:
    try:
        body = json.loads(raw) if raw else {}
    except ValueError as error:
        raise MonitorUnavailable(f"{_name(endpoint)}: {status} with an answer that is no JSON") from error
    if status in _OK or status in accept:
        return _Answer(status, body)
    told = " ".join(str(body.get("error", "") if isinstance(body, dict) else "").split())
    refused = MonitorRefused if status == HTTPStatus.GONE else MonitorUnavailable
    raise refused(f"{_name(endpoint)}: {status} {told}".rstrip())


def _parse(endpoint: Endpoint, read: Callable[[Any], Parsed], body: Any) -> Parsed:
    try:
        return read(body)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MonitorUnavailable(f"{_name(endpoint)}: not the answer of a monitor ({error!r})") from error


def _require_owner(endpoint: Endpoint, uid: str) -> None:
    """A pod's address is given to the next pod at once."""
    if uid != endpoint.key.uid:
        raise MonitorUnavailable(f"{_name(endpoint)}: another job's monitor answers at {endpoint.host}")


def _name(endpoint: Endpoint) -> str:
    return f"monitor of {endpoint.key.namespace}/{endpoint.key.name}"
