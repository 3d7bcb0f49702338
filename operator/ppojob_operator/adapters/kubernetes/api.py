"""Requests to the API server as plain JSON: one function, one meaning of errors, a time limit and a count on each.

The client library brings configuration, credentials and their renewal. Its generated classes are not used: they would
cost more than the request they wrap, and know none of the custom kinds.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Protocol
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio import client, config

from ppojob_operator.errors import ClusterUnavailable, LeadershipLost

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
CHANGE_SECONDS: Final = 5.0
"""A change that is still on its way after this is given up: shorter than from a leader's end to the next one's start
(`leadership.Timing`), so that two leaders' changes never mix.
"""
READ_SECONDS: Final = 20.0
_PAGE: Final = 250
MERGE_PATCH: Final = "application/merge-patch+json"


class Requests(Protocol):
    """Where requests are counted (see `telemetry`)."""

    def request(self, verb: str, code: str) -> None:
        """`code` is the HTTP status; 0 where there was no answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and JSON of an answer that the caller said it can handle."""

    status: int
    body: dict[str, Any]

    @property
    def found(self) -> bool:
        return self.status != HTTPStatus.NOT_FOUND


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """How to reach the API server, for the watching framework, which has a client of its own."""

    server: str
    ca_path: str | None
    insecure: bool
    certificate_path: str | None
    private_key_path: str | None
    token: str | None


class Api:
    """A connection. `may_write` guards every change: False means that another operator may lead by now."""

    def __init__(
        self,
        configuration: client.Configuration,
        *,
        requests: Requests,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        self._client = client.ApiClient(configuration)
        self._requests = requests
        self.may_write = may_write

    async def close(self) -> None:
        await self._client.close()  # type: ignore[no-untyped-call]

    async def get(self, path: str, *, accept: frozenset[int] = frozenset({404})) -> Answer:
        return await self._request("GET", path, verb="get", accept=accept)

    async def list(self, path: str, selector: str | None = None) -> tuple[list[dict[str, Any]], int]:
        """All items, page by page, and the version of the first page: the list is at least as new as that."""
        items: list[dict[str, Any]] = []
        version, query = 0, {"limit": str(_PAGE)} | ({"labelSelector": selector} if selector else {})
        while True:
            answer = await self._request("GET", f"{path}?{urlencode(query)}", verb="list")
            items += answer.body.get("items", [])
            metadata = answer.body["metadata"]
            version = version or int(metadata["resourceVersion"])
            if not metadata.get("continue"):
                return items, version
            query |= {"continue": metadata["continue"]}

    async def change(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any],
        *,
        accept: frozenset[int] = frozenset(),
        content_type: str = "application/json",
        needs_lead: bool = True,
    ) -> Answer:
        """POST, PUT, PATCH or DELETE. Raises `LeadershipLost` where this process may no longer act."""
        if needs_lead and not self.may_write():
            raise LeadershipLost(f"{method} {path} was not sent: the lease was not renewed in time")
        return await self._request(method, path, verb=_VERBS[method], body=body, accept=accept, content=content_type)

    async def credentials(self) -> Credentials:
        """As of now: tokens are renewed."""
        settings = self._client.configuration
        header = await settings.get_api_key_with_prefix("BearerToken")
        return Credentials(
            server=settings.host,
            ca_path=settings.ssl_ca_cert,
            insecure=not settings.verify_ssl,
            certificate_path=settings.cert_file,
            private_key_path=settings.key_file,
            token=header.split(" ", 1)[-1].strip() if header else None,
        )

    async def _request(
        self,
        method: str,
        path: str,
        *,
        verb: str,
        body: Mapping[str, Any] | None = None,
        accept: frozenset[int] = frozenset(),
        content: str = "application/json",
    ) -> Answer:
        where = f"{method} {path.partition('?')[0]}"
        code = "0"
        try:
            async with asyncio.timeout(seconds := READ_SECONDS if body is None else CHANGE_SECONDS):
                response = await self._send(method, path, body, content, seconds)
                code, raw = str(response.status), await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ClusterUnavailable(f"{where}: {_reason(error)}") from error
        finally:
            self._requests.request(verb, code)
        return _answer(where, response.status, raw, accept)

    async def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None, content: str, seconds: float
    ) -> aiohttp.ClientResponse:
        headers = {"Accept": "application/json", "Content-Type": content, "User-Agent": "ppojob-operator"}
        await self._client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        url = f"{self._client.configuration.host}{path}"
        limit = aiohttp.ClientTimeout(total=seconds, sock_connect=CHANGE_SECONDS)
        sent = await self._client.rest_client.request(  # type: ignore[no-untyped-call]
            method, url, headers=headers, body=None if body is None else dict(body), _request_timeout=limit
        )
        answer: aiohttp.ClientResponse = sent.response
        return answer


def _answer(where: str, status: int, raw: bytes, accept: frozenset[int]) -> Answer:
    if status >= HTTPStatus.BAD_REQUEST and status not in accept:
        raise ClusterUnavailable(f"{where}: {status} {_told(raw)}")
    try:
        return Answer(status, json.loads(raw))
    except ValueError as error:
        if status in accept:
            return Answer(status, {})
        raise ClusterUnavailable(f"{where}: {status} with an answer that is no JSON") from error


def _told(raw: bytes) -> str:
    """The message of an API server's Status, in one line."""
    try:
        message = json.loads(raw)["message"]
    except (ValueError, KeyError, TypeError):
        message = raw[:200].decode(errors="replace")
    return " ".join(str(message).split())


def _reason(error: Exception) -> str:
    return "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__


async def load_configuration(kubeconfig: str | None = None) -> client.Configuration:
    """From the pod's service account where there is one, else from `kubeconfig`, KUBECONFIG or ~/.kube/config.

    Raises `ClusterUnavailable` where there is neither.
    """
    settings = client.Configuration()
    try:
        config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
    except config.ConfigException:
        try:
            await config.load_kube_config(kubeconfig, client_configuration=settings)  # type: ignore[no-untyped-call]
        except config.ConfigException as error:
            raise ClusterUnavailable(f"no way to the API server: {error}") from error
    return settings
