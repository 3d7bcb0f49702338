"""One job that goes bad again and again; at each of its rollbacks something is killed or damaged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.faults.moments import Moment
from tests.faults.victims import Victim
from tests.support.kube import TookTooLong
from tests.support.run import Run

from ppojob_contract import manifest as manifests
from ppojob_contract.durable import read_json
from ppojob_contract.journal import RowKind
from ppojob_contract.mailbox import CheckpointRef
from ppojob_contract.manifest import Manifest

RECOVERY_SECONDS = 420

Status = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is done, and when."""

    what: str
    moment: Moment
    do: Callable[[Run], int]
    """Returns how much was hit; 0 makes the fault void."""


@dataclass(slots=True)
class Result:
    """A line of the table."""

    what: str
    moment: str
    seconds: float = 0.0
    rollbacks: int = 0
    restarts: int = 0
    attempts: str = ""
    steps_again: int = 0
    lost: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        return not self.lost and not self.wrong


def kills(victims: Iterable[Victim], moments: Iterable[Moment]) -> Iterator[Fault]:
    moments = tuple(moments)
    for victim in victims:
        for moment in moments:
            yield Fault(victim.name, moment, victim.kill)


def inflict(run: Run, fault: Fault) -> Result:
    """Waits for the next rollback, does it, and waits until the run trains again."""
    before = run.wait("training", _trains)
    number = before["attempt"]["number"]
    result = Result(fault.what, fault.moment.name)
    fault.moment.wait(run, number, RECOVERY_SECONDS)
    trusted = confirmed(run)
    last = _last_step(run, number)
    began = time.monotonic()
    hit = fault.do(run)
    try:
        after = run.wait("training again", lambda status: _recovered(before, status), RECOVERY_SECONDS)
    except (TookTooLong, AssertionError) as error:
        result.wrong = (str(error)[:300],)
        after = run.status
    result.seconds = time.monotonic() - began
    result.rollbacks = after["rollbacks"] - before["rollbacks"]
    result.restarts = after["restarts"] - before["restarts"]
    result.attempts = f"{number} -> {after['attempt']['number']}"
    result.steps_again = last - after["attempt"].get("resume", {}).get("step", 0)
    result.lost = tuple(missing(run, trusted))
    result.wrong += tuple(_wrong(run, hit, result, after))
    return result


def _trains(status: Status) -> bool:
    return status.get("phase") == "Running" and not status.get("intent") and bool(status["attempt"].get("firstStep"))


def _recovered(before: Status, status: Status) -> bool:
    further = status["attempt"]["number"] > before["attempt"]["number"]
    return status["rollbacks"] > before["rollbacks"] and further and _trains(status)


def confirmed(run: Run) -> list[CheckpointRef]:
    """As the claim has it: what must never be lost."""
    written = read_json(run.layout.confirmed) or {"checkpoints": []}
    return [CheckpointRef.from_json(item) for item in written["checkpoints"]]


def missing(run: Run, trusted: Iterable[CheckpointRef]) -> Iterator[str]:
    still = confirmed(run)
    for ref in trusted:
        folder = run.layout.attempt(ref.attempt).checkpoint(ref.step)
        value = read_json(folder / manifests.NAME)
        found = manifests.problems(folder, Manifest.from_json(value)) if value else ["no manifest"]
        if found or ref not in still:
            yield f"{ref.attempt}/{ref.step}: {'; '.join(found) or 'not confirmed any more'}"


def _last_step(run: Run, number: int) -> int:
    return max((row.step for row in run.journal(number) if row.kind is RowKind.STEP), default=0)


def _wrong(run: Run, hit: int, result: Result, after: Status) -> Iterator[str]:
    if hit == 0:
        yield "nothing was hit"
    # The run may go bad again before somebody looks: each attempt that was rolled back counts once.
    first = int(result.attempts.split()[0])
    ended = [item for item in after["attempts"] if item["number"] >= first and item["result"] == "RolledBack"]
    if result.rollbacks != len(ended) or not ended:
        yield f"{result.rollbacks} rollbacks of {len(ended)} attempts"
    resume = after["attempt"].get("resume")
    cause = after["attempt"].get("cause")
    if cause == "Rollback" and resume and CheckpointRef.from_json(resume) not in confirmed(run):
        yield f"went back to {resume}, which is not confirmed"
    numbers = [item["number"] for item in after["attempts"]] + [after["attempt"]["number"]]
    if sorted(set(numbers)) != list(range(min(numbers), max(numbers) + 1)):
        yield f"attempt numbers {numbers}"
    yield from _overlaps(run)


def _overlaps(run: Run) -> Iterator[str]:
    """Whether an attempt wrote a row after a later one had begun to."""
    last: tuple[int, float] | None = None
    for number in run.layout.attempts():
        times = [row.time for row in run.journal(number)]
        if times and last is not None and times[0] < last[1]:
            yield f"attempts {last[0]} and {number} overlap"
        if times:
            last = (number, times[-1])
