"""The operator's own metrics, and its HTTP server for them and for the kubelet's probes."""

import time
from collections import Counter as Tally
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
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
from ppojob_operator.api.v1alpha1.status import IntentKind, Phase, PPOJobStatus, Verdict
from ppojob_operator.domain.decisions import Decision
from ppojob_operator.ports import Key

M = TypeVar("M", Gauge, Counter)

# They would double the number of series, and nobody asks for them.
disable_created_metrics()  # type: ignore[no-untyped-call]

VERDICT_VALUES: Final = {Verdict.HEALTHY: 0, Verdict.BREACHED: 1, Verdict.INCONCLUSIVE: 2, Verdict.WAITING: 3}
_BUCKETS: Final = {
    metrics.RECONCILE.name: (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    metrics.ROLLBACK_SECONDS.name: (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0),
}
COLD: Final = "Cold"
"""Path of a rollback by a new start of the trainer."""

_CONTACT_SECONDS: Final = 60.0
"""The lease is read every few seconds: so long without an answer, this process or its way out is broken."""


@dataclass(slots=True)
class _JobSeries:
    """What is exported and was seen of one job: all of it goes when the job goes."""

    key: Key
    status: PPOJobStatus
    rollback_since: datetime | None = None
    """When the rollback that has not reached a first step yet was decided."""


@dataclass(slots=True)
class Health:
    """When the API server last answered anything, and what is known to be broken."""

    monotonic: Callable[[], float] = time.monotonic
    broken: dict[str, str] = field(default_factory=dict)
    """Part of the operator to what is wrong with it."""
    last_contact: float = field(init=False)

    def __post_init__(self) -> None:
        self.last_contact = self.monotonic()

    def problems(self) -> list[str]:
        """One line each; empty when this process can do its work."""
        told = [f"{part}: {problem}" for part, problem in self.broken.items()]
        silent = self.monotonic() - self.last_contact
        if silent > _CONTACT_SECONDS:
            told.append(f"api server: no answer for {silent:.0f} s")
        return told


class Telemetry:
    """All metrics of `ppojob_contract.metrics.OPERATOR_METRICS` in a registry of its own, and this process's own."""

    def __init__(self, *, health: Health | None = None) -> None:
        self.registry = CollectorRegistry()
        self.health = health or Health()
        for standard in (ProcessCollector, PlatformCollector, GCCollector):
            standard(registry=self.registry)
        self._reconcile = self._histogram(metrics.RECONCILE)
        self._decisions = self._declare(Counter, metrics.DECISIONS)
        self._jobs = self._declare(Gauge, metrics.JOBS)
        self._rollbacks = self._declare(Counter, metrics.ROLLBACKS)
        self._rollback_seconds = self._histogram(metrics.ROLLBACK_SECONDS)
        self._restarts = self._declare(Counter, metrics.RESTARTS)
        self._api_requests = self._declare(Counter, metrics.API_REQUESTS)
        self._job_rollbacks = self._declare(Gauge, metrics.JOB_ROLLBACKS)
        self._verdict = self._declare(Gauge, metrics.VERDICT)
        self._series: dict[tuple[str, str], _JobSeries] = {}
        self._count_phases()

    def _declare(self, kind: type[M], metric: Metric) -> M:
        return kind(metric.name, metric.help, metric.labels, registry=self.registry)

    def _histogram(self, metric: Metric) -> Histogram:
        return Histogram(metric.name, metric.help, metric.labels, registry=self.registry, buckets=_BUCKETS[metric.name])

    def reconciled(self, seconds: float) -> None:
        self._reconcile.observe(seconds)

    def count_decision(self, decision: Decision) -> None:
        self._decisions.labels(type(decision).__name__).inc()

    def request(self, verb: str, code: str) -> None:
        """A request to the API server; `code` 0 where there was no answer."""
        self._api_requests.labels(verb, code).inc()
        if code != "0":
            self.health.last_contact = self.health.monotonic()

    def observe_job(self, key: Key, status: PPOJobStatus) -> None:
        """Sets a job's gauges, and counts what its status says has happened since the last call.

        What happened before this process first saw the job is in its status, and was counted by another process.
        """
        place = (key.namespace, key.name)
        known = self._series.get(place)
        before = known.status if known is not None and known.key == key else None
        series = _JobSeries(key, status, _rollback_since(known if before else None, status))
        for gone in _guardrails(known.status if known else None) - _guardrails(status):
            self._verdict.remove(*place, gone)
        for guardrail in status.guardrails:
            self._verdict.labels(*place, guardrail.name).set(VERDICT_VALUES[guardrail.verdict])
        self._job_rollbacks.labels(*place).set(status.rollbacks)
        if before is not None:
            self._count_turns(before, status, series)
        self._series[place] = series
        if known is None or known.status.phase is not status.phase:
            self._count_phases()

    def _count_turns(self, before: PPOJobStatus, status: PPOJobStatus, series: _JobSeries) -> None:
        if status.rollbacks > before.rollbacks:
            self._rollbacks.labels(COLD).inc(status.rollbacks - before.rollbacks)
        if status.restarts > before.restarts:
            # Counted with the intent: the attempt that it ends is not in the history yet.
            reason = status.intent.reason if status.intent else ExitClass.UNKNOWN.value
            self._restarts.labels(reason).inc(status.restarts - before.restarts)
        first_step = status.attempt.first_step if status.attempt else None
        if series.rollback_since is not None and first_step is not None and first_step > series.rollback_since:
            self._rollback_seconds.labels(COLD).observe((first_step - series.rollback_since).total_seconds())
            series.rollback_since = None

    def forget(self, key: Key) -> None:
        """Removes the series of a job that is gone, unless another job of that name has them by now."""
        place = (key.namespace, key.name)
        known = self._series.get(place)
        if known is None or known.key != key:
            return
        del self._series[place]
        self._job_rollbacks.remove(*place)
        for guardrail in _guardrails(known.status):
            self._verdict.remove(*place, guardrail)
        self._count_phases()

    def _count_phases(self) -> None:
        tally = Tally(series.status.phase for series in self._series.values())
        for phase in Phase:
            self._jobs.labels(phase.value).set(tally[phase])


def _guardrails(status: PPOJobStatus | None) -> set[str]:
    return {guardrail.name for guardrail in status.guardrails} if status else set()


def _rollback_since(known: _JobSeries | None, status: PPOJobStatus) -> datetime | None:
    if status.intent is not None and status.intent.kind is IntentKind.ROLLBACK:
        return status.intent.since
    return known.rollback_since if known else None


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
