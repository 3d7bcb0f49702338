"""The election, with a Lease in memory and a clock of its own."""

import asyncio
from dataclasses import replace

import pytest

from ppojob_operator.controller.leadership import Leadership, Timing
from ppojob_operator.errors import ClusterUnavailable, Conflict, LeadershipLost
from ppojob_operator.ports import LeaseRecord

TIMING = Timing(duration=15, give_up=10, retry=2)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)

    async def reach(self, time: float) -> None:
        """Lets the others run until they have slept so far."""
        while self.now < time:  # noqa: ASYNC110 (no event: the sleepers move this clock)
            await asyncio.sleep(0)


class Leases:
    """One Lease, which can be made to fail."""

    def __init__(self) -> None:
        self.record: LeaseRecord | None = None
        self.version = 0
        self.failing = False
        self.writes = 0

    async def read(self) -> LeaseRecord | None:
        if self.failing:
            raise ClusterUnavailable("down")
        return self.record

    async def write(self, record: LeaseRecord) -> LeaseRecord:
        if self.failing:
            raise ClusterUnavailable("down")
        if record.version != (self.record.version if self.record else None):
            raise Conflict("changed")
        self.version, self.writes = self.version + 1, self.writes + 1
        self.record = replace(record, version=str(self.version))
        return self.record


@pytest.fixture
def leases() -> Leases:
    return Leases()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def member(leases: Leases, clock: Clock, identity: str) -> Leadership:
    return Leadership(leases, identity, timing=TIMING, monotonic=clock, sleep=clock.sleep)


async def test_the_first_one_leads_at_once(leases: Leases, clock: Clock) -> None:
    one = member(leases, clock, "one")
    assert not one.valid
    await one.acquire()
    assert one.valid
    assert leases.record is not None
    assert (leases.record.holder, leases.record.duration_seconds, clock.now) == ("one", 15, 100)


async def test_a_second_one_waits_until_the_lease_is_silent(leases: Leases, clock: Clock) -> None:
    await member(leases, clock, "one").acquire()
    two = member(leases, clock, "two")
    await two.acquire()
    assert two.valid
    assert 115 < clock.now <= 118
    assert leases.record is not None
    assert (leases.record.holder, leases.record.transitions) == ("two", 1)


async def test_a_follower_waits_while_the_leader_renews(leases: Leases, clock: Clock) -> None:
    one, two = member(leases, clock, "one"), member(leases, clock, "two")
    await one.acquire()
    keeping = asyncio.create_task(one.keep())
    waiting = asyncio.create_task(two.acquire())
    await clock.reach(200)
    assert one.valid
    assert not waiting.done()
    keeping.cancel()
    waiting.cancel()


async def test_a_released_lease_is_taken_at_the_next_look(leases: Leases, clock: Clock) -> None:
    one, two = member(leases, clock, "one"), member(leases, clock, "two")
    await one.acquire()
    await one.release()
    assert not one.valid
    await two.acquire()
    assert clock.now == 100


async def test_the_same_pod_takes_its_lease_again_at_once(leases: Leases, clock: Clock) -> None:
    """A container that was restarted: the process before it is surely dead."""
    await member(leases, clock, "one").acquire()
    await member(leases, clock, "one").acquire()
    assert clock.now == 100
    assert leases.record is not None
    assert leases.record.transitions == 0


async def test_a_leader_gives_up_before_another_can_lead(leases: Leases, clock: Clock) -> None:
    one = member(leases, clock, "one")
    await one.acquire()
    leases.failing = True
    with pytest.raises(LeadershipLost, match="could not renew"):
        await one.keep()
    assert clock.now - 100 <= TIMING.give_up + TIMING.retry
    assert clock.now - 100 < TIMING.duration


async def test_a_short_outage_costs_nothing(leases: Leases, clock: Clock) -> None:
    one = member(leases, clock, "one")
    await one.acquire()
    keeping = asyncio.create_task(one.keep())
    leases.failing = True
    await clock.reach(106)
    leases.failing = False
    await clock.reach(130)
    assert one.valid
    keeping.cancel()


async def test_a_leader_stops_when_another_holds_the_lease(leases: Leases, clock: Clock) -> None:
    one = member(leases, clock, "one")
    await one.acquire()
    assert leases.record is not None
    leases.record = replace(leases.record, holder="two", version="99")
    with pytest.raises(LeadershipLost, match="held by two"):
        await one.keep()
    assert not one.valid


async def test_a_deleted_lease_is_lost(leases: Leases, clock: Clock) -> None:
    one = member(leases, clock, "one")
    await one.acquire()
    leases.record = None
    with pytest.raises(LeadershipLost, match="nobody"):
        await one.keep()


async def test_a_process_that_slept_may_not_act(leases: Leases, clock: Clock) -> None:
    """Stopped for a minute and continued: before it can renew, its writes are already refused."""
    one = member(leases, clock, "one")
    await one.acquire()
    clock.now += 60
    assert not one.valid


async def test_two_that_start_together_do_not_both_lead(leases: Leases, clock: Clock) -> None:
    one, two = member(leases, clock, "one"), member(leases, clock, "two")
    first, second = asyncio.create_task(one.acquire()), asyncio.create_task(two.acquire())
    await asyncio.wait({first, second}, return_when=asyncio.FIRST_COMPLETED)
    assert one.valid != two.valid
    first.cancel()
    second.cancel()


async def test_releasing_is_best_effort(leases: Leases, clock: Clock) -> None:
    one = member(leases, clock, "one")
    await one.acquire()
    leases.failing = True
    await one.release()
    await one.release()
    assert not one.valid
