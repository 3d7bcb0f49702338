"""Where a run is in the order of its data, and which batches it passes over.

The order is the sequence of batches that verl's iterator yields, through the ends of epochs, numbered from 0. Only the
numbers are kept here: a checkpoint's manifest has the step's, and `data.pt` the iterator's own state.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ppojob_contract import journal
from ppojob_contract.data_plan import Batches, DataPlan, StepRange
from ppojob_contract.journal import RowKind
from ppojob_contract.layout import JobLayout
from ppojob_contract.manifest import Manifest

_NAME_LENGTH = 16

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What one sequence of batches follows from."""

    files: Sequence[str]
    rows: int
    """After filtering."""
    max_prompt_length: int
    batch_size: int
    shuffle: bool
    loader_processes: bool
    """Whether data is loaded in processes of its own: torchdata then draws another order from the same seed."""
    data_seed: int
    reshuffle: int = 0

    @property
    def name(self) -> str:
        """Equal for equal sequences."""
        facts = dataclasses.asdict(self) | {"files": list(self.files)}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:_NAME_LENGTH]

    @property
    def seed(self) -> int:
        """Of the sampler: `data.seed` itself, or one derived from it for each reshuffle."""
        if self.reshuffle == 0:
            return self.data_seed
        digest = hashlib.sha256(f"{self.data_seed}/{self.reshuffle}".encode()).digest()
        return int.from_bytes(digest[:7], "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """Where in an order an attempt begins."""

    position: int
    """Number of the batch that comes next."""
    iterator: bool
    """Whether the iterator saved with the checkpoint goes on; else the order begins anew."""
    message: str = ""
    """What is not as a reader of the journal would expect."""


def beginning(order: Order, manifest: Manifest | None) -> Beginning:
    """After the load of that checkpoint; without one the order begins."""
    if manifest is None:
        return Beginning(position=0, iterator=False)
    at = manifest.batches
    if at is None:  # saved before batches were numbered, when none was ever passed over
        return Beginning(position=manifest.step, iterator=True)
    if at.order == order.name:
        return Beginning(position=at.last + 1, iterator=True)
    if at.reshuffle != order.reshuffle:
        message = f"the data is shuffled anew (reshuffle {order.reshuffle}) and begins anew"
    else:
        message = "the order of the data begins anew: data or batchSize are not what the checkpoint was made with"
    return Beginning(position=0, iterator=False, message=message)


def find(job: JobLayout, steps: Iterable[StepRange], order: str) -> tuple[frozenset[int], tuple[str, ...]]:
    """The batches of that order that those steps had, and a line for steps whose batches are not known.

    Steps that had batches of another order have none in this one.
    """
    numbers: set[int] = set()
    unknown = []
    for wanted in steps:
        rows = (row for row, _ in journal.read(job.attempt(wanted.attempt).journal) if row.kind is RowKind.STEP)
        had = {row.step: row.batches for row in rows if wanted.first <= row.step <= wanted.last}
        if missing := [step for step in range(wanted.first, wanted.last + 1) if had.get(step) is None]:
            unknown.append(
                f"the journal of attempt {wanted.attempt} does not say which batches {_steps(missing)} had: "
                "they are not passed over"
            )
        for batches in had.values():
            if batches is not None and batches.order == order:
                numbers.update(range(batches.first, batches.last + 1))
    return frozenset(numbers), tuple(unknown)


def _steps(steps: Sequence[int]) -> str:
    return f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}"


class Feed:
    """Counts the batches that verl draws, and draws on past those that are to be left out."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """`tell` gets a line whenever batches were passed over."""
        self._tell = tell
        self._order: Order | None = None
        self._skip: frozenset[int] = frozenset()
        self._next = 0
        self._first: int | None = None

    def begin(self, order: Order, plan: DataPlan, manifest: Manifest | None, job: JobLayout) -> Beginning:
        """After a load: the iterator stands, or is to be put, where the answer says."""
        start = beginning(order, manifest)
        self._skip, unknown = find(job, plan.skip, order.name)
        self._order, self._next, self._first = order, start.position, None
        ahead = sum(number >= start.position for number in self._skip)
        lines = [
            *filter(None, [start.message]),
            *([f"{ahead} batches are to be passed over"] if ahead else []),
            *unknown,
        ]
        return Beginning(position=start.position, iterator=start.iterator, message="; ".join(lines))

    def begin_step(self) -> None:
        """The batches drawn from here on are another step's."""
        self._first = None

    def draw(self, fetch: Callable[[], T]) -> T:
        """The next batch that is not to be left out; `fetch` draws one."""
        passed = []
        while True:
            batch, number = fetch(), self._next
            self._next += 1
            if number not in self._skip:
                break
            passed.append(number)
        if passed:
            which = f"batch {passed[0]}" if len(passed) == 1 else f"batches {passed[0]} to {passed[-1]}"
            self._tell(f"{which} of the data's order passed over: a rollback left them out")
        if self._first is None:
            self._first = number
        return batch

    @property
    def drawn(self) -> Batches | None:
        """What the current step has drawn so far."""
        if self._order is None or self._first is None:
            return None
        return Batches(order=self._order.name, reshuffle=self._order.reshuffle, first=self._first, last=self._next - 1)
