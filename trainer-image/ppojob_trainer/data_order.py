# mypy: disable-error-code="import, misc, no-untyped-call, untyped-decorator, attr-defined, union-attr, arg-type"
"""verl's training data loader, put where an attempt's plan and checkpoint say.

verl 0.9.1 (`trainer/ppo/v1/trainer_base.py`) draws a step's prompts in `_fetch_one_gen_batch`, which makes a new
iterator at the end of an epoch; the sampler's generator goes on, so one seed gives one sequence of batches through all
epochs. `data.pt` is the loader's `state_dict()` after the step's draw; verl loads it, whatever it was made with.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ppojob_contract.data_plan import Batches, DataPlan
from ppojob_contract.layout import JobLayout
from ppojob_contract.manifest import Manifest
from ppojob_trainer.batches import Feed, Order

ITERATOR_FILE = "data.pt"


class DataOrder:
    """The training data of one trainer, across all the attempts that it runs."""

    def __init__(self, trainer: Any, job: JobLayout, tell: Callable[[str], None]) -> None:
        self._trainer = trainer
        self._job = job
        self._feed = Feed(tell)
        self._at_step_begin: Any = None

    def position(self, plan: DataPlan, manifest: Manifest | None = None, folder: Path | None = None) -> str:
        """Puts the loader where an attempt with this plan begins that has loaded the checkpoint `folder`; with neither
        manifest nor folder, at the beginning of its order. Returns what is worth saying of it.
        """
        order = self.order(plan.reshuffle)
        start = self._feed.begin(order, plan, manifest, self._job)
        loader = self._trainer.train_dataloader
        self._trainer.train_dataloader_it = self._at_step_begin = None
        _rewind(loader, order.seed)
        if start.iterator and folder is not None:
            loader.load_state_dict(torch.load(folder / ITERATOR_FILE, weights_only=False))
        return start.message

    def begin_step(self) -> None:
        """Keeps the iterator's state from before the step's draw, for a stop in the middle of the step."""
        self._feed.begin_step()
        if self._trainer.train_dataloader_it is not None:
            self._at_step_begin = self._trainer.train_dataloader.state_dict()

    def draw(self, fetch: Callable[[], Any]) -> Any:
        return self._feed.draw(fetch)

    @property
    def drawn(self) -> Batches | None:
        """What the current step has drawn so far."""
        return self._feed.drawn

    def take_back(self, folder: Path) -> None:
        """Writes into a checkpoint the iterator from before the step's draw: nothing has learnt from that batch."""
        torch.save(self._at_step_begin, folder / ITERATOR_FILE)

    def order(self, reshuffle: int) -> Order:
        """Of the configured data."""
        data = self._trainer.config.data
        return Order(
            files=[str(path) for path in data.train_files],
            rows=len(self._trainer.train_dataset),
            max_prompt_length=int(data.max_prompt_length),
            batch_size=int(data.get("gen_batch_size", None) or data.train_batch_size),
            shuffle=bool(data.shuffle),
            loader_processes=int(data["dataloader_num_workers"]) > 0,
            data_seed=int(data.seed),
            reshuffle=reshuffle,
        )


def _rewind(loader: Any, seed: int) -> None:
    """To the beginning of its order, as if just made (torchdata's StatefulDataLoader keeps a loaded state until its
    next iterator, and the sampler's generator wherever the last epoch left it).
    """
    loader.load_state_dict({})
    loader.next_iter_state = None
    generator = getattr(loader.sampler, "generator", None)
    if generator is not None:
        generator.manual_seed(seed)
