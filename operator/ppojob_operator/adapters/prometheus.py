"""`ports.Metrics` over Prometheus' HTTP API."""

import json
import math
from collections import defaultdict
from http import HTTPStatus
from typing import Any, Final

import aiohttp

from ppojob_operator.errors import QueryRefused, QueryUnavailable

_CONNECT_SECONDS: Final = 3.0
_ANSWER_SECONDS: Final = 15.0
_LARGEST: Final = 4 * 2**20
"""Bytes of an answer: a query is about one value at a time."""
_SERIES: Final = 100
"""Asked for at most; one after the other is possible, since labels change with a pod."""
_REFUSED: Final = frozenset({HTTPStatus.BAD_REQUEST.value, HTTPStatus.UNPROCESSABLE_ENTITY.value})
"""Prometheus' answers to a query that it cannot parse or carry out."""


class HttpPrometheus:
    """One for all jobs; `close` it at the end."""

    def __init__(self, url: str, *, interval_seconds: float) -> None:
        self._url = f"{url.rstrip('/')}/api/v1/query_range"
        self.interval_seconds = interval_seconds
        self._open: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._open is not None:
            await self._open.close()
            self._open = None

    async def values(self, query: str, first: int, last: int) -> dict[int, float]:
        step = self.interval_seconds
        form = {
            "query": query,
            "start": f"{first * step:.3f}",
            "end": f"{last * step:.3f}",
            "step": f"{step:g}",
            # A sample older than two scrapes is no sample of then.
            "lookback_delta": f"{2 * step:g}",
            "limit": str(_SERIES),
        }
        body = await self._post(form)
        try:
            return _single_values(body["data"]["result"], step)
        except (KeyError, TypeError, ValueError) as error:
            raise QueryUnavailable(f"Prometheus: not the answer to a range query ({error!r})") from error

    async def _post(self, form: dict[str, str]) -> Any:
        timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS, sock_connect=_CONNECT_SECONDS)
        try:
            async with self._session().post(self._url, data=form, timeout=timeout) as response:
                raw = await _read(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            reason = "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
            raise QueryUnavailable(f"Prometheus: {reason}") from error
        return _judge(response.status, raw)

    def _session(self) -> aiohttp.ClientSession:
        """Made in the running loop, at the first call."""
        if self._open is None:
            self._open = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        return self._open


async def _read(response: aiohttp.ClientResponse) -> bytes:
    parts, size = [], 0
    async for part in response.content.iter_chunked(2**16):
        size += len(part)
        if size > _LARGEST:
            raise QueryRefused(f"Prometheus: an answer of more than {_LARGEST} bytes")
        parts.append(part)
    return b"".join(parts)


def _judge(status: int, raw: bytes) -> Any:
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise QueryUnavailable(f"Prometheus: {status} with an answer that is no JSON") from error
    if status == HTTPStatus.OK:
        return body
    told = " ".join(str(body.get("error", "") if isinstance(body, dict) else "").split())[:500]
    refused = QueryRefused if status in _REFUSED else QueryUnavailable
    raise refused(f"Prometheus: {status} {told}".rstrip())


def _single_values(series: list[dict[str, Any]], step: float) -> dict[int, float]:
    found: dict[int, list[float]] = defaultdict(list)
    for one in series:
        for time, value in one.get("values", ()):
            found[round(float(time) / step)].append(float(value))
    return {at: values[0] for at, values in found.items() if len(values) == 1 and not math.isnan(values[0])}
