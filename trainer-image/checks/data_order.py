"""The data's order on torchdata's own loader, as verl 0.9.1 drives it: `python checks/data_order.py`, half a minute.

Attempts of random lengths resume from random checkpoints, in a new process or in the running one, in the middle of a
step too, with batches left out and reshuffles. Every batch that is drawn must be the one whose number is recorded.
"""

import random
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils.data import Dataset, SequentialSampler
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import RandomSampler

from ppojob_contract import journal
from ppojob_contract.data_plan import DataPlan, StepRange
from ppojob_contract.journal import Row, RowKind
from ppojob_contract.layout import JobLayout
from ppojob_contract.manifest import Manifest
from ppojob_trainer.data_order import ITERATOR_FILE, DataOrder

ROWS, BATCH, SEED = 50, 8, 42

Saved = tuple[Manifest, Path]


class Numbers(Dataset[int]):
    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> int:
        return index


class Trainer:
    """What `DataOrder` knows of verl's trainer."""

    def __init__(self, processes: int, *, shuffle: bool, seed: int = SEED) -> None:
        self.train_dataset = Numbers()
        generator = torch.Generator()
        generator.manual_seed(seed)
        self.train_dataloader: Any = StatefulDataLoader(
            self.train_dataset,
            batch_size=BATCH,
            num_workers=processes,
            drop_last=True,
            sampler=RandomSampler(self.train_dataset, generator=generator)
            if shuffle
            else SequentialSampler(self.train_dataset),
        )
        self.train_dataloader_it: Any = None
        data = Data(
            train_files=["/train.parquet"],
            max_prompt_length=8,
            train_batch_size=BATCH,
            shuffle=shuffle,
            seed=SEED,
            dataloader_num_workers=processes,
        )
        self.config = SimpleNamespace(data=data)

    def fetch(self) -> tuple[int, ...]:
        """The next batch, in the next epoch if need be."""
        if self.train_dataloader_it is None:
            self.train_dataloader_it = iter(self.train_dataloader)
        batch = next(self.train_dataloader_it, None)
        if batch is None:
            self.train_dataloader_it = iter(self.train_dataloader)
            batch = next(self.train_dataloader_it)
        return tuple(batch.tolist())


class Data(dict[str, Any]):
    """As omegaconf: by key or attribute."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


class Story:
    """Attempts of one job."""

    def __init__(self, root: Path, dice: random.Random, processes: int, *, shuffle: bool) -> None:
        self.root, self.dice, self.processes, self.shuffle = root, dice, processes, shuffle
        self.job = JobLayout(root)
        self.orders: dict[int, list[tuple[int, ...]]] = {}
        self.saved: list[Saved] = []
        self.drawn = 0
        self.start()

    def start(self) -> None:
        """A new process."""
        self.trainer = Trainer(self.processes, shuffle=self.shuffle)
        self.data = DataOrder(self.trainer, self.job, lambda _: None)

    def attempt(self, number: int, plan: DataPlan, resume: Saved | None) -> None:
        if self.dice.random() < 0.5:
            self.start()
        if resume is not None:  # verl loads it, whatever it was made with
            self.trainer.train_dataloader.load_state_dict(torch.load(resume[1] / ITERATOR_FILE, weights_only=False))
        self.data.position(plan, *(resume or (None, None)))
        step = resume[0].step if resume else 0
        for _ in range(self.dice.randrange(15)):
            step += 1
            self.step(number, step, plan)
            if self.dice.random() < 0.1:  # stopped while the next step generates
                self.data.begin_step()
                self.data.draw(self.trainer.fetch)
                self.data.take_back(self.saved[-1][1])
                return

    def step(self, attempt: int, step: int, plan: DataPlan) -> None:
        self.data.begin_step()
        batch, drawn = self.data.draw(self.trainer.fetch), self.data.drawn
        assert drawn is not None
        assert drawn.first == drawn.last
        assert batch == self.order(plan.reshuffle)[drawn.first], (attempt, step, drawn)
        self.drawn += 1
        row = Row(kind=RowKind.STEP, step=step, time=0.0, batches=drawn)
        journal.append(self.job.attempt(attempt).journal, row)
        folder = self.job.attempt(attempt).checkpoint(step)
        folder.mkdir(parents=True)
        torch.save(self.trainer.train_dataloader.state_dict(), folder / ITERATOR_FILE)
        self.saved.append((Manifest(attempt=attempt, step=step, world_size=1, files={}, batches=drawn), folder))

    def order(self, reshuffle: int) -> list[tuple[int, ...]]:
        """As a loader gives it that is never interrupted."""
        if reshuffle not in self.orders:
            seed = self.data.order(reshuffle).seed
            trainer = Trainer(self.processes, shuffle=self.shuffle, seed=seed)
            self.orders[reshuffle] = [trainer.fetch() for _ in range(100)]
        return self.orders[reshuffle]


def main() -> None:
    for processes, stories in ((0, 60), (2, 6)):
        for shuffle in (True, False):
            dice, drawn = random.Random(processes), 0  # noqa: S311
            for _ in range(stories):
                with tempfile.TemporaryDirectory() as folder:
                    story, plan = Story(Path(folder), dice, processes, shuffle=shuffle), DataPlan()
                    for number in range(1, 6):
                        story.attempt(number, plan, dice.choice([None, *story.saved[-6:]]))
                        last = [manifest.step for manifest, _ in story.saved if manifest.attempt == number]
                        if last and dice.random() < 0.5:
                            skip = StepRange(attempt=number, first=max(1, last[-1] - 2), last=last[-1])
                            plan = replace(plan, skip=(*plan.skip, skip))
                        if dice.random() < 0.3:
                            plan = replace(plan, reshuffle=plan.reshuffle + 1)
                    drawn += story.drawn
            print(f"loading processes {processes}, shuffle {shuffle}: {drawn} batches as recorded", flush=True)


if __name__ == "__main__":
    main()
