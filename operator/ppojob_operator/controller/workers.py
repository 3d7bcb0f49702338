"""One asyncio task for each PPOJob life: woken by events, by the monitor's long poll, and by a timer."""

import asyncio
import contextlib
import logging
import random
import time
from dataclasses import dataclass, field
from datetime import timedelta

from ppojob_operator.controller.observe import Memory, WatchPoint
from ppojob_operator.controller.reconcile import Course, Reconciler
from ppojob_operator.errors import (
    ClusterUnavailable,
    Conflict,
    CRDMismatch,
    LeadershipLost,
    MonitorRefused,
    MonitorUnavailable,
)
from ppojob_operator.ports import Key, Monitor

logger = logging.getLogger(__name__)

EXPECTED = (ClusterUnavailable, CRDMismatch, Conflict, LeadershipLost, MonitorUnavailable, MonitorRefused)
DEFECT = "Defect"
"""What an error that nobody expected is counted as."""

FIRST_DELAY, LONGEST_DELAY = timedelta(milliseconds=500), timedelta(seconds=30)
AFTER_ACT = timedelta(milliseconds=200)
"""Between an act and the next look: the watches need a moment to show its effect."""

AT_THE_SAME_TIME = 16
"""Passes that run concurrently: at a restart with 1,000 jobs the API server is not asked a thousand times at once."""


@dataclass(slots=True)
class _Worker:
    task: asyncio.Task[None]
    wake: asyncio.Event


class _LongPoll:
    """Wakes a worker when its attempt's journal grows; what came is read by the pass itself."""

    def __init__(self, monitor: Monitor, wake: asyncio.Event, wait_seconds: float) -> None:
        self._monitor, self._wake, self._wait_seconds = monitor, wake, wait_seconds
        self._point: WatchPoint | None = None
        self._task: asyncio.Task[None] | None = None

    def follow(self, memory: Memory) -> None:
        """Polls from where the last pass has read to."""
        if memory.watch == self._point and self._task is not None and not self._task.done():
            return
        self.stop()
        self._point = memory.watch
        if memory.watch is not None:
            self._task = asyncio.create_task(self._poll(memory.watch))

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _poll(self, point: WatchPoint) -> None:
        with contextlib.suppress(MonitorUnavailable):  # the next pass says so
            while True:
                steps = await self._monitor.steps(
                    point.endpoint, point.attempt, point.after, metrics=(), wait_seconds=self._wait_seconds
                )
                if steps.rows:
                    self._wake.set()
                    return


@dataclass(slots=True)
class Workers:
    """All workers of this process."""

    reconciler: Reconciler
    long_poll_seconds: float = 25.0
    _workers: dict[Key, _Worker] = field(default_factory=dict)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_THE_SAME_TIME))

    def wake(self, key: Key) -> None:
        """Lets the job's worker look soon; starts it where there is none."""
        worker = self._workers.get(key)
        if worker is None or worker.task.done():
            wake = asyncio.Event()
            worker = _Worker(asyncio.create_task(self._run(key, wake), name=f"{key.namespace}/{key.name}"), wake)
            self._workers[key] = worker
        worker.wake.set()

    def forget(self, key: Key) -> None:
        """The job is gone: its worker looks once more, sees that, and ends."""
        if key in self._workers:
            self._workers[key].wake.set()

    async def close(self) -> None:
        """Ends all workers; what they were doing is recorded and goes on with the next operator."""
        tasks = [worker.task for worker in self._workers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._workers.clear()

    async def _run(self, key: Key, wake: asyncio.Event) -> None:
        course, failures = Course(), 0
        poll = _LongPoll(self.reconciler.observer.monitor, wake, self.long_poll_seconds)
        try:
            while True:
                wake.clear()
                delay, failures = await self._pass(key, course, failures)
                if delay is None:
                    return
                poll.follow(course.memory)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(wake.wait(), delay.total_seconds())
        finally:
            poll.stop()
            if self._workers.get(key) and self._workers[key].wake is wake:
                del self._workers[key]

    async def _pass(self, key: Key, course: Course, failures: int) -> tuple[timedelta | None, int]:
        try:
            async with self._slots:
                began = time.monotonic()
                delay = await self.reconciler.reconcile(key, course)
                self.reconciler.telemetry.reconciled(time.monotonic() - began)
        except EXPECTED as error:
            self.reconciler.telemetry.failed(key, type(error).__name__)
            level = logging.WARNING if isinstance(error, CRDMismatch) else logging.INFO
            reason = type(error).__name__
            logger.log(level, "will try again: %s", error, extra=key.log_fields | {"reason": reason})
            return backoff(failures, random.random()), failures + 1  # noqa: S311 (spreads load, hides nothing)
        except Exception:
            # The last resort: one job's defect must not stop the others, and must be seen.
            self.reconciler.telemetry.failed(key, DEFECT)
            logger.exception("a pass failed", extra=key.log_fields)
            return backoff(failures + 3, random.random()), failures + 1  # noqa: S311
        return (None if delay is None else max(delay, AFTER_ACT)), 0


def backoff(failures: int, jitter: float) -> timedelta:
    """Delay before the next try: doubles up to 30 s; `jitter` from 0 to 1 spreads it over its upper half."""
    delay = min(FIRST_DELAY * (1 << min(failures, 10)), LONGEST_DELAY)
    return delay * (0.5 + 0.5 * jitter)
