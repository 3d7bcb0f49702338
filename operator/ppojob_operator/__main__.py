"""`ppojob-operator run`: puts the parts together, leads when the Lease allows it, and stops in order."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import kopf

from ppojob_operator import logs, settings
from ppojob_operator.adapters.kubernetes import Api, KubernetesCluster, KubernetesLease, Store, load_configuration
from ppojob_operator.adapters.monitor import HttpMonitor
from ppojob_operator.adapters.prometheus import HttpPrometheus
from ppojob_operator.api.v1alpha1.spec import Device
from ppojob_operator.controller import handlers
from ppojob_operator.controller.act import Actor
from ppojob_operator.controller.leadership import Leadership
from ppojob_operator.controller.observe import Observer
from ppojob_operator.controller.reconcile import Reconciler
from ppojob_operator.controller.workers import Workers
from ppojob_operator.errors import ClusterUnavailable, LeadershipLost, PPOJobError
from ppojob_operator.render.settings import RenderSettings
from ppojob_operator.settings import Settings
from ppojob_operator.telemetry import Telemetry, TelemetryServer

logger = logging.getLogger("ppojob_operator")

RETRY_SECONDS: Final = 5.0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_LEASE_LOST: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What runs, wired together."""

    settings: Settings
    telemetry: Telemetry
    api: Api
    store: Store
    cluster: KubernetesCluster
    monitor: HttpMonitor
    metrics: HttpPrometheus | None
    leadership: Leadership
    workers: Workers


def wire(chosen: Settings, api: Api, telemetry: Telemetry) -> Parts:
    """The composition root."""
    store, monitor = Store(), HttpMonitor()
    telemetry.health.checks.append(store.watches.problems)
    cluster = KubernetesCluster(api, store, namespaces=chosen.namespaces)
    lease = KubernetesLease(api=api, namespace=chosen.lease_namespace, name=chosen.lease_name)
    leadership = Leadership(lease, chosen.identity)
    api.may_write = lambda: leadership.valid
    imageless = frozenset(Device) - chosen.trainer_images.keys()
    metrics = None
    if chosen.prometheus_url:
        metrics = HttpPrometheus(chosen.prometheus_url, interval_seconds=chosen.prometheus_interval_seconds)
    observer = Observer(cluster, monitor, lambda: datetime.now(UTC), imageless, metrics)
    render = RenderSettings(
        images=chosen.trainer_images,
        image_pull_policy=chosen.image_pull_policy,
        scrape_annotations=chosen.scrape_annotations,
    )
    reconciler = Reconciler(
        cluster,
        observer,
        Actor(cluster, monitor, observer, render),
        telemetry,
        timedelta(seconds=chosen.status_interval_seconds),
    )
    return Parts(
        settings=chosen,
        telemetry=telemetry,
        api=api,
        store=store,
        cluster=cluster,
        monitor=monitor,
        metrics=metrics,
        leadership=leadership,
        workers=Workers(reconciler, long_poll_seconds=chosen.monitor_wait_seconds),
    )


async def serve(chosen: Settings) -> int:
    """Runs until SIGTERM or SIGINT, or until something breaks. Returns the exit code."""
    telemetry = Telemetry()
    server = TelemetryServer(telemetry, chosen.metrics_port)
    await server.start()
    parts = wire(chosen, Api(await load_configuration(), requests=telemetry), telemetry)
    stopping = _stop_on_signals()
    leading = asyncio.create_task(lead(parts, stopping), name="lead")
    stopped = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({leading, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if leading.done():
            await leading  # raises what broke it
            return EXIT_FAILED
        logger.info("stopping")
        return 0
    finally:
        stopped.cancel()
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
        await server.close()
        await parts.monitor.close()
        if parts.metrics is not None:
            await parts.metrics.close()
        await parts.api.close()


async def lead(parts: Parts, stopping: asyncio.Event) -> None:
    """Waits for its turn, then serves jobs until it is cancelled or the watches end."""
    await _until_installed(parts.cluster)
    await parts.leadership.acquire()
    parts.telemetry.leads(True)
    keeping = asyncio.create_task(_keep(parts.leadership), name="lease")
    resyncing: asyncio.Task[None] | None = None
    watching: asyncio.Task[None] | None = None
    watches_end = asyncio.Event()
    try:
        await _sync(parts)
        resyncing = asyncio.create_task(_resync(parts), name="resync")
        watching = await _watch(parts, watches_end, stopping)
        ended, _ = await asyncio.wait({resyncing, watching, keeping}, return_when=asyncio.FIRST_COMPLETED)
        logger.error("%s ended", " and ".join(task.get_name() for task in ended))
        for task in ended:
            await task  # raises what broke it
    finally:
        # What the next leader needs comes first: nobody acts any more, and the Lease is free.
        await parts.workers.close()
        parts.telemetry.leads(False)
        keeping.cancel()
        await parts.leadership.release()
        if resyncing is not None:
            resyncing.cancel()
        if watching is not None:
            watches_end.set()
            await asyncio.gather(watching, return_exceptions=True)


async def _until_installed(cluster: KubernetesCluster) -> None:
    told: list[str] = []

    async def complete() -> bool:
        nonlocal told
        missing = await cluster.missing_kinds()
        if missing and missing != told:
            logger.warning("waiting for %s: are the CRDs installed (KubeRay's too)?", ", ".join(missing))
        told = missing
        return not missing

    await _until(complete)


async def _sync(parts: Parts) -> None:
    """Fills or corrects the store, and wakes the workers of what changed."""

    async def listed() -> bool:
        for change in await parts.cluster.sync():
            handlers.tell(parts.workers, change)
        return True

    await _until(listed)


async def _until(done: Callable[[], Awaitable[bool]]) -> None:
    """Tries again while the API server does not answer."""
    while True:
        try:
            if await done():
                return
        except ClusterUnavailable as error:
            logger.warning("will try again: %s", error)
        await asyncio.sleep(RETRY_SECONDS)


async def _resync(parts: Parts) -> None:
    while True:
        await asyncio.sleep(parts.settings.resync_seconds)
        await _sync(parts)


async def _watch(parts: Parts, end: asyncio.Event, stopping: asyncio.Event) -> asyncio.Task[None]:
    # kopf ends by cancelling every task that is younger than itself, workers too. It also takes the signals.
    older = asyncio.all_tasks()
    tasks = await handlers.spawn(
        handlers.registry(parts.api, parts.store, parts.workers), parts.settings.namespaces, end
    )
    _stop_on_signals(stopping)
    return asyncio.create_task(kopf.run_tasks(tasks, ignored=older), name="watches")


async def _keep(leadership: Leadership) -> None:
    """Ends the process when the Lease is lost: cancelling tasks in order would take longer than another may wait."""
    try:
        await leadership.keep()
    except LeadershipLost as error:
        logger.critical("stopping at once: %s", error)
        logging.shutdown()
        os._exit(EXIT_LEASE_LOST)


def _stop_on_signals(event: asyncio.Event | None = None) -> asyncio.Event:
    stopping = event or asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    return stopping


def main(arguments: list[str] | None = None) -> int:
    """Entry point. Returns the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] != ["run"]:
        sys.stderr.write("usage: ppojob-operator run [--help]\n")
        return 0 if given in (["--help"], ["-h"]) else EXIT_USAGE
    try:
        chosen = settings.load(given[1:])
    except settings.SettingsError as error:
        sys.stderr.write(f"ppojob-operator: {error}\n")
        return EXIT_USAGE
    logs.configure(chosen.log_format, chosen.log_level)
    try:
        return asyncio.run(serve(chosen))
    except PPOJobError as error:
        logger.critical("%s", error)
    except Exception:
        logger.exception("the operator broke")
    return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
