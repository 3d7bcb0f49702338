"""Whatever is resumed from wherever, with whatever left out: trained is the data's order without what is left out."""

import itertools
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ppojob_contract import journal
from ppojob_contract.data_plan import Batches, DataPlan, StepRange
from ppojob_contract.journal import Row, RowKind
from ppojob_contract.layout import JobLayout
from ppojob_contract.manifest import Manifest
from ppojob_trainer.batches import Feed, Order

BATCHES_AN_EPOCH = 5


def order(reshuffle: int) -> Order:
    return Order(
        files=["/train.parquet"],
        rows=BATCHES_AN_EPOCH * 2 + 1,
        max_prompt_length=8,
        batch_size=2,
        shuffle=True,
        loader_processes=False,
        data_seed=1,
        reshuffle=reshuffle,
    )


class Iterator:
    """As verl's loader under one order: it knows its own place, and nothing of numbers."""

    def __init__(self, name: str, yielded: int) -> None:
        self.name, self.yielded = name, yielded

    def fetch(self) -> tuple[str, int]:
        self.yielded += 1
        return self.name, self.yielded - 1


@dataclass
class Checkpoint:
    """With the place of the iterator, as `data.pt` has it."""

    manifest: Manifest
    yielded: int


@dataclass
class World:
    """Attempts of one job, with real journals."""

    job: JobLayout
    checkpoints: list[Checkpoint] = field(default_factory=list)
    plan: DataPlan = field(default_factory=DataPlan)
    had: dict[tuple[int, int], list[tuple[str, int]]] = field(default_factory=dict)
    """What each step of each attempt really trained on."""

    def attempt(self, number: int, resume: Checkpoint | None, draws: list[int]) -> None:
        now, feed = order(self.plan.reshuffle), Feed(lambda _: None)
        manifest = resume.manifest if resume else None
        start = feed.begin(now, self.plan, manifest, self.job)
        iterator = Iterator(now.name, resume.yielded if resume and start.iterator else 0)
        assert start.position == iterator.yielded
        step = manifest.step if manifest else 0
        for count in draws:
            step += 1
            feed.begin_step()
            self.had[number, step] = [feed.draw(iterator.fetch) for _ in range(count)]
            self._write(number, step, feed.drawn, iterator)
        trained = [batch for (attempt, _), had in self.had.items() if attempt == number for batch in had]
        left = ((now.name, index) for index in itertools.count(start.position))
        left_out = self.left_out()
        expected = itertools.islice((batch for batch in left if batch not in left_out), len(trained))
        assert trained == list(expected)

    def _write(self, number: int, step: int, drawn: Batches | None, iterator: Iterator) -> None:
        row = Row(kind=RowKind.STEP, step=step, time=0.0, batches=drawn)
        journal.append(self.job.attempt(number).journal, row)
        manifest = Manifest(attempt=number, step=step, world_size=1, files={}, batches=drawn)
        saved = Manifest.from_json(manifest.to_json())
        self.checkpoints.append(Checkpoint(saved, iterator.yielded))

    def left_out(self) -> set[tuple[str, int]]:
        """From what was really trained on, and not from what journals say of it."""
        return {
            batch
            for steps in self.plan.skip
            for step in range(steps.first, steps.last + 1)
            for batch in self.had.get((steps.attempt, step), [])
        }


@given(data=st.data())
def test_trained_is_the_order_without_what_is_left_out(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(JobLayout(Path(folder)))
        for number in range(1, data.draw(st.integers(2, 6), label="attempts") + 1):
            resume = data.draw(st.sampled_from([None, *world.checkpoints]), label="resume")
            world.attempt(number, resume, data.draw(st.lists(st.integers(1, 3), max_size=8), label="draws of steps"))
            mine = sorted(step for attempt, step in world.had if attempt == number)
            if mine and data.draw(st.booleans(), label="leave steps out"):
                first, last = sorted(data.draw(st.tuples(st.sampled_from(mine), st.sampled_from(mine)), label="steps"))
                skip = (*world.plan.skip, StepRange(attempt=number, first=first, last=last))
                world.plan = DataPlan(skip=skip, reshuffle=world.plan.reshuffle)
            if data.draw(st.integers(0, 3), label="reshuffle") == 0:
                world.plan = DataPlan(skip=world.plan.skip, reshuffle=world.plan.reshuffle + 1)
