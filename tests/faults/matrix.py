"""One job that goes bad again and again; at each of its rollbacks something is killed or damaged."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.faults.moments import Moment
from tests.faults.result import Result
from tests.faults.victims import Victim
from tests.support.kube import Kube, TookTooLong, wait_for
from tests.support.run import Run

from ppojob_contract import manifest as manifests
from ppojob_contract.durable import read_json
from ppojob_contract.journal import Row, RowKind, read
from ppojob_contract.layout import JobLayout
from ppojob_contract.mailbox import CheckpointRef
from ppojob_contract.manifest import Manifest
from ppojob_trainer.succession import STARTED_AFTER

TRAINING_SECONDS = 600
MOMENT_SECONDS = 300
RECOVERY_SECONDS = 600
"""A new start takes 40 s on two idle cores, and many times that on busy ones."""

Status = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is done, and when."""

    what: str
    moment: Moment
    aim: Callable[[Run], Callable[[], int]]
    """Called well before the moment. What it returns does it, and says how much was hit; 0 makes the fault void."""
    ends_driver: bool = False
    needs_confirmed: int = 1
    afterwards: Callable[[Kube], None] = lambda _: None


Faults = tuple[Fault, ...]
"""Of one rollback, in the order of their moments."""


def kills(victims: Iterable[Victim], moments: Iterable[Moment]) -> list[Faults]:
    """Each victim at each moment, the victims in turn: one that is killed again soon is kept waiting by the kubelet."""
    return [(_kill(victim, moment),) for moment in moments for victim in victims if moment not in victim.not_at]


def kills_together(victims: Sequence[Victim], moments: Sequence[Moment]) -> list[Faults]:
    """The same, with all the victims killed in each rollback, each at another moment."""
    return [
        tuple(
            _kill(victims[(place - turn) % len(moments)], moment)
            for place, moment in enumerate(moments)
            if (place - turn) % len(moments) < len(victims)
        )
        for turn in range(len(moments))
    ]


def _kill(victim: Victim, moment: Moment) -> Fault:
    return Fault(victim.name, moment, victim.aim, victim.ends_driver, afterwards=victim.renew)


@dataclass(slots=True)
class _Strike:
    """A fault while it is measured."""

    fault: Fault
    result: Result
    do: Callable[[], int]
    began: float = 0.0
    struck: float = 0.0
    trusted: Sequence[CheckpointRef] = ()


def inflict(run: Run, path: str, faults: Faults) -> list[Result]:
    """Waits for the next rollback, does it, and waits until the run trains again."""
    results = [Result(path, fault.what, fault.moment.name) for fault in faults]
    try:
        _inflict(run, faults, results)
    except (TookTooLong, AssertionError) as error:
        for result in results:
            result.wrong += (str(error)[:300],)
    for fault in faults:
        fault.afterwards(run.kube)
    return results


def _inflict(run: Run, faults: Faults, results: list[Result]) -> None:
    layout = run.layout
    needed = max(fault.needs_confirmed for fault in faults)

    def ready(status: Status) -> bool:
        return _trains(status) and len(_whole(layout)) >= needed

    before = wait_for("training", lambda: _unless_ended(run, ready), seconds=TRAINING_SECONDS)
    number = before["attempt"]["number"]
    strikes = [_Strike(fault, result, fault.aim(run)) for fault, result in zip(faults, results, strict=True)]
    for strike in strikes:
        strike.fault.moment.wait(layout, number, MOMENT_SECONDS)
        _strike(layout, strike)
    last = max((row.step for row in _steps(layout, number)), default=0)
    afters = [_trained_on(run, before, strike, last) for strike in strikes]
    for strike, after in zip(strikes, afters, strict=True):
        strike.result.lost = tuple(missing(layout, strike.trusted))
        strike.result.wrong += tuple(_wrong(layout, before, after))


def _strike(layout: JobLayout, strike: _Strike) -> None:
    strike.began = time.time()
    if strike.do() == 0:
        strike.result.wrong += ("nothing was hit",)
    strike.struck = time.time()
    strike.trusted = _whole(layout)  # not what was damaged just now


def _trained_on(run: Run, before: Status, strike: _Strike, last: int) -> Status:
    """The status that has a step trained after the fault."""
    layout, number = run.layout, before["attempt"]["number"]
    since = strike.struck if strike.fault.ends_driver else None

    def went_on() -> tuple[int, Row] | None:
        return _first_step_after(layout, number, strike.struck, new_driver_since=since)

    attempt, row = wait_for("training on", went_on, seconds=RECOVERY_SECONDS, every=0.2)

    def seen(status: Status) -> bool:
        current = status.get("attempt", {})
        place = current.get("number", 0), current.get("lastStep") or 0
        return bool(status["rollbacks"] > before["rollbacks"] and place >= (attempt, row.step) and _trains(status))

    after = wait_for("training on, as the status has it", lambda: _unless_ended(run, seen), seconds=RECOVERY_SECONDS)
    strike.result.seconds = row.time - strike.began
    strike.result.happened = happened(after, number, attempt)
    strike.result.steps_again = last - _steps(layout, attempt)[0].step + 1
    return after


def _unless_ended(run: Run, reached: Callable[[Status], bool]) -> Status | None:
    status = run.status
    if reached(status):
        return status
    assert not status.get("finished"), f"the job ended: {json.dumps(status.get('conditions'))}"
    return None


def _trains(status: Status) -> bool:
    return status.get("phase") == "Running" and not status.get("intent") and bool(status["attempt"].get("firstStep"))


def _first_step_after(
    layout: JobLayout, number: int, struck: float, *, new_driver_since: float | None
) -> tuple[int, Row] | None:
    """Attempt and row; where the driver was hit only those of a new one: the old one's last words are no recovery."""
    for attempt in layout.attempts():
        if attempt <= number or (new_driver_since is not None and not _new_driver(layout, attempt, new_driver_since)):
            continue
        for row in _steps(layout, attempt):
            if row.time > struck:
                return attempt, row
    return None


def _new_driver(layout: JobLayout, attempt: int, since: float) -> bool:
    started = read_json(layout.attempt(attempt).started)
    return started is not None and STARTED_AFTER not in started and float(started["time"]) > since


def _steps(layout: JobLayout, attempt: int) -> list[Row]:
    return [row for row, _ in read(layout.attempt(attempt).journal) if row.kind is RowKind.STEP]


def confirmed(layout: JobLayout) -> list[CheckpointRef]:
    """As the claim has it: what must never be lost."""
    written = read_json(layout.confirmed) or {"checkpoints": []}
    return [CheckpointRef.from_json(item) for item in written["checkpoints"]]


def _whole(layout: JobLayout) -> list[CheckpointRef]:
    return [ref for ref in confirmed(layout) if not _problems(layout, ref)]


def missing(layout: JobLayout, trusted: Iterable[CheckpointRef]) -> Iterator[str]:
    """What was confirmed and whole, and is not any more."""
    still = confirmed(layout)
    for ref in trusted:
        found = _problems(layout, ref)
        if found or ref not in still:
            yield f"{ref.attempt}/{ref.step}: {'; '.join(found) or 'not confirmed any more'}"


def _problems(layout: JobLayout, ref: CheckpointRef) -> list[str]:
    folder = layout.attempt(ref.attempt).checkpoint(ref.step)
    value = read_json(folder / manifests.NAME)
    return manifests.problems(folder, Manifest.from_json(value)) if value else ["no manifest"]


def happened(status: Status, first: int, last: int | None = None) -> str:
    """How each attempt behind `first`, up to `last`, came to be, in words."""
    attempts = {item["number"]: item for item in [*status["attempts"], status["attempt"]]}
    words: list[str] = []
    before = attempts[first]
    for number in sorted(attempts):
        if first < number <= (last or number):
            words.append(_began(before, attempts[number]))
            before = attempts[number]
    return ", ".join(words)


def _began(before: Status, attempt: Status) -> str:
    if attempt.get("result") == "Superseded":
        return "begun in place and given up"
    if attempt.get("cause") == "Rollback":
        return "rolled back in place" if attempt.get("carriedBy") else "rolled back by a new start"
    return f"new start after {before.get('result')}"


def _wrong(layout: JobLayout, before: Status, after: Status) -> Iterator[str]:
    # The run may go bad again before somebody looks: each attempt that was rolled back counts once.
    first = before["attempt"]["number"]
    rollbacks = after["rollbacks"] - before["rollbacks"]
    ended = [item for item in after["attempts"] if item["number"] >= first and item["result"] == "RolledBack"]
    if rollbacks != len(ended) or not ended:
        yield f"{rollbacks} rollbacks of {len(ended)} attempts"
    numbers = [item["number"] for item in after["attempts"]] + [after["attempt"]["number"]]
    if len(set(numbers)) != len(numbers):
        yield f"attempt numbers {numbers}"
    trusted = _whole(layout)
    for item in [*after["attempts"], after["attempt"]]:
        resume = item.get("resume")
        # One that could not load what it was given did no harm.
        if item["number"] > first and item.get("cause") == "Rollback" and _steps(layout, item["number"]):
            ref = CheckpointRef.from_json(resume) if resume else None
            if ref not in trusted:
                yield f"attempt {item['number']} trained on from {resume}, which is not confirmed and whole"
    yield from _overlaps(layout)


def _overlaps(layout: JobLayout) -> Iterator[str]:
    """Whether an attempt wrote a row after a later one had begun to."""
    last: tuple[int, float] | None = None
    for number in layout.attempts():
        times = [row.time for row, _ in read(layout.attempt(number).journal)]
        if times and last is not None and times[0] < last[1]:
            yield f"attempts {last[0]} and {number} overlap"
        if times:
            last = (number, times[-1])
