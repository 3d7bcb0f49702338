"""The operator's own metrics, and its HTTP server for them and for the kubelet's probes."""

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from aiohttp import web
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from ppojob_contract import metrics
from ppojob_contract.metrics import Metric
from ppojob_contract.outcomes import ExitClass
from ppojob_operator.api.v1alpha1.spec import PPOJobSpec
from ppojob_operator.api.v1alpha1.status import IntentKind, PPOJobStatus, Verdict
from ppojob_operator.domain.decisions import Decision
from ppojob_operator.job_series import JobSeries, Told
from ppojob_operator.ports import Key

M = TypeVar("M", Gauge, Counter)

# They would double the number of series, and nobody asks for them.
disable_created_metrics()  # type: ignore[no-untyped-call]


_CONTACT_SECONDS: Final = 60.0
"""The lease is read every few seconds: so long without an answer, this process or its way out is broken."""


@dataclass(slots=True)
class Health:
    """When the API server last answered anything, and what the parts of the operator say of themselves."""

    monotonic: Callable[[], float] = time.monotonic
    checks: list[Callable[[], Iterable[str]]] = field(default_factory=list)
    """Each gives what is wrong now, a line for each thing."""
    last_contact: float = field(init=False)

    def __post_init__(self) -> None:
        self.last_contact = self.monotonic()

    def problems(self) -> list[str]:
        """One line each; empty when this process can do its work."""
        told = [problem for check in self.checks for problem in check()]
        silent = self.monotonic() - self.last_contact
        if silent > _CONTACT_SECONDS:
            told.append(f"api server: no answer for {silent:.0f} s")
        return told


class Telemetry:
    """The operator's metrics, those of the jobs it serves, and this process's own, in a registry of its own."""

    def __init__(self, *, health: Health | None = None) -> None:
        self.registry = CollectorRegistry()
        self.health = health or Health()
        for standard in (ProcessCollector, PlatformCollector, GCCollector):
            standard(registry=self.registry)
        self._reconcile = self._histogram(metrics.RECONCILE)
        self._decisions = self._declare(Counter, metrics.DECISIONS)
        self._rollbacks = self._declare(Counter, metrics.ROLLBACKS)
        self._rollback_seconds = self._histogram(metrics.ROLLBACK_SECONDS)
        self._restarts = self._declare(Counter, metrics.RESTARTS)
        self._checkpoints_deleted = self._declare(Counter, metrics.CHECKPOINTS_DELETED)
        self._api_requests = self._declare(Counter, metrics.API_REQUESTS)
        self._leader = self._declare(Gauge, metrics.LEADER)
        self._series = JobSeries()
        self.registry.register(self._series)

    def _declare(self, kind: type[M], metric: Metric) -> M:
        return kind(metric.name, metric.help, metric.labels, registry=self.registry)

    def _histogram(self, metric: Metric) -> Histogram:
        return Histogram(metric.name, metric.help, metric.labels, registry=self.registry, buckets=metric.bounds)

    def leads(self, leading: bool) -> None:
        """Whether this process serves the jobs now."""
        self._leader.set(leading)

    def reconciled(self, seconds: float) -> None:
        self._reconcile.observe(seconds)

    def count_decision(self, decision: Decision) -> None:
        self._decisions.labels(type(decision).__name__).inc()

    def deleted(self, checkpoints: int) -> None:
        self._checkpoints_deleted.inc(checkpoints)

    def request(self, verb: str, code: str) -> None:
        """A request to the API server; `code` 0 where there was no answer."""
        self._api_requests.labels(verb, code).inc()
        if code != "0":
            self.health.last_contact = self.health.monotonic()

    def failed(self, key: Key, error: str) -> None:
        """A pass over the job failed."""
        self._series.of(key).errors[error] += 1

    def observe_job(self, key: Key, status: PPOJobStatus, spec: PPOJobSpec | None = None) -> None:
        """Exports the job's status, and counts what it says has happened since the last call.

        What happened before this process first saw the job is in its status, and was counted by another process.
        """
        told = self._series.of(key)
        if status.intent is not None and status.intent.kind is IntentKind.ROLLBACK:
            told.rollback_since = status.intent.since
        if told.seen:
            self._count_turns(told, status)
        told.breaches = _breaches(told, status)
        told.status, told.spec, told.seen = status, spec, True

    def _count_turns(self, told: Told, status: PPOJobStatus) -> None:
        before, attempt = told.status, status.attempt
        if attempt is not None and attempt.cause is IntentKind.ROLLBACK and _number(before) != attempt.number:
            self._rollbacks.labels(attempt.path.value).inc()
        if status.restarts > before.restarts:
            # Counted with the intent: the attempt that it ends is not in the history yet.
            reason = status.intent.reason if status.intent else ExitClass.UNKNOWN.value
            self._restarts.labels(reason).inc(status.restarts - before.restarts)
        since = told.rollback_since
        if since is not None and attempt is not None and attempt.first_step is not None and attempt.first_step > since:
            self._rollback_seconds.labels(attempt.path.value).observe((attempt.first_step - since).total_seconds())
            told.rollback_since = None

    def forget(self, key: Key) -> None:
        """Removes the series of a job that is gone, unless another job of that name has them by now."""
        self._series.forget(key)


def _number(status: PPOJobStatus) -> int:
    return status.attempt.number if status.attempt else 0


def _breaches(told: Told, status: PPOJobStatus) -> Tally[str]:
    """A breach that a rollback ends at once lasts for less than a scrape: it is counted when it is first seen."""
    # An attempt that has just begun has no verdicts yet: what is known stays.
    names = {item.name for item in status.guardrails} or set(told.breaches)
    known = {item.name: item.verdict for item in told.status.guardrails}
    begun = Tally(
        item.name
        for item in status.guardrails
        if told.seen and item.verdict is Verdict.BREACHED and known.get(item.name) is not Verdict.BREACHED
    )
    return Tally({name: told.breaches[name] + begun[name] for name in sorted(names)})


class TelemetryServer:
    """`/metrics`, `/healthz` (restart me) and `/readyz` (send me requests).

    On all addresses, v6 too, unless told: probes and scrapes come from outside the pod.
    """

    def __init__(self, telemetry: Telemetry, port: int, host: str | None = None) -> None:
        self._telemetry = telemetry
        self._host = host
        self._port = port
        self._runner: web.AppRunner | None = None

    async def start(self) -> int:
        """Returns the port it listens on (one that was free where 0 was asked for)."""
        app = web.Application()
        app.add_routes(
            [web.get("/metrics", self._metrics), web.get("/healthz", self._health), web.get("/readyz", self._health)]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        await site.start()
        address: tuple[str, int] = self._runner.addresses[0]
        return address[1]

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(self._telemetry.registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    async def _health(self, _: web.Request) -> web.Response:
        problems = self._telemetry.health.problems()
        return web.Response(text="\n".join(problems) or "ok", status=503 if problems else 200)
