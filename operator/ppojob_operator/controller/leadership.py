"""One leader by a Lease: only the operator that holds it acts on jobs.

A follower takes the Lease once it has not changed for the duration written in it, by the follower's own clock, so
clocks of two nodes are never compared. A leader counts from before it sent its last successful renewal and gives up
earlier than a follower could take over. The client library's own election (`kubernetes.aio.leaderelection`) does
neither bound a request that hangs nor release the Lease, hence these few lines.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NoReturn

from ppojob_operator.errors import ClusterUnavailable, Conflict, LeadershipLost
from ppojob_operator.ports import LeaseRecord, LeaseStore

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """`duration` is what followers wait for; the leader gives up after `give_up`, which must be shorter."""

    duration: float = 15.0
    give_up: float = 10.0
    retry: float = 2.0


class Leadership:
    """One process's part in the election: `acquire`, then `keep` until the end, then `release`."""

    def __init__(
        self,
        store: LeaseStore,
        identity: str,
        *,
        timing: Timing | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._identity = identity
        self._timing = timing or Timing()
        self._monotonic = monotonic
        self._sleep = sleep
        self._seen: LeaseRecord | None = None
        self._seen_at = 0.0
        self._held: LeaseRecord | None = None
        self._held_since = 0.0

    @property
    def valid(self) -> bool:
        """Whether this process may act: nobody else can have taken the Lease yet."""
        return self._held is not None and self._monotonic() - self._held_since < self._timing.give_up

    async def acquire(self) -> None:
        """Returns when this process leads."""
        told = ""
        while not await self._attempt():
            holder = self._seen.holder if self._seen else ""
            if holder != told:
                logger.info("waiting for the lease, held by %s", holder or "nobody")
                told = holder
            await self._sleep(self._timing.retry)
        logger.info("leading as %s", self._identity)

    async def keep(self) -> NoReturn:
        """Renews for ever. Raises `LeadershipLost` when another holds the Lease, or may soon."""
        while True:
            await self._sleep(self._timing.retry)
            await self._attempt()
            if not self.valid:
                raise LeadershipLost(f"{self._identity} could not renew the lease for {self._timing.give_up:g} s")

    async def release(self) -> None:
        """Lets a follower take over at once; best effort."""
        held, self._held = self._held, None
        if held is None:
            return
        try:
            await self._store.write(replace(held, holder="", duration_seconds=1.0, renewed=_now()))
        except (ClusterUnavailable, Conflict) as error:
            logger.warning("the lease was not released: %s", error)

    async def _attempt(self) -> bool:
        """Takes or renews the Lease where that is allowed. Never takes longer than a leader may be silent."""
        try:
            async with asyncio.timeout(self._timing.give_up / 2):
                return await self._take_or_renew()
        except Conflict:
            return False
        except (ClusterUnavailable, TimeoutError) as error:
            logger.warning("the lease could not be read or renewed: %s", str(error) or "no answer in time")
            return False

    async def _take_or_renew(self) -> bool:
        sent_at = self._monotonic()
        current = await self._store.read()
        self._observe(current)
        ours = current is not None and current.holder == self._identity
        if self._held is not None and not ours:
            self._held = None
            raise LeadershipLost(f"the lease is held by {current.holder if current else 'nobody'}")
        if current is not None and not ours and not self._expired(current):
            return False
        self._held = await self._store.write(self._next(current, taken=not ours))
        self._held_since = sent_at
        return True

    def _observe(self, current: LeaseRecord | None) -> None:
        if self._seen != current:
            self._seen, self._seen_at = current, self._monotonic()

    def _expired(self, current: LeaseRecord) -> bool:
        waited = self._monotonic() - self._seen_at
        return not current.holder or waited > current.duration_seconds

    def _next(self, current: LeaseRecord | None, *, taken: bool) -> LeaseRecord:
        now = _now()
        return LeaseRecord(
            holder=self._identity,
            duration_seconds=self._timing.duration,
            acquired=now if taken or current is None else current.acquired,
            renewed=now,
            transitions=(current.transitions + taken) if current else 0,
            version=current.version if current else None,
        )


def _now() -> str:
    """As Kubernetes writes a MicroTime."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
