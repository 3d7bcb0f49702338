# mypy: disable-error-code="import, misc, no-untyped-call, untyped-decorator, attr-defined, union-attr, arg-type"
"""What a step and a validation leave in the journal."""

import time
from typing import Any

from ppojob_contract import journal
from ppojob_contract.journal import REWARD_FAILED, REWARD_TERM, Row, RowKind
from ppojob_contract.numbers import number, plain
from ppojob_trainer import figures
from ppojob_trainer.batch import Batch
from ppojob_trainer.device_memory import largest
from ppojob_trainer.samples import TRAIN, VALIDATION, SampleFiles


class Records:
    """Writes the rows of one trainer, into the journal of the attempt that it runs at the time."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self.last_step_row: Row | None = None
        self._validated: list[Batch] = []
        self._samples: SampleFiles | None = None
        self._failing: set[str] = set()
        """Reward terms whose failure the journal of this attempt tells of."""

    def step(self, batch: Any, metrics: dict[str, Any], step: int, epoch: int) -> None:
        """`metrics` are verl's, whole."""
        trainer, answers = self._trainer, Batch(batch)
        metrics.update({f"{REWARD_TERM}{name}": value for name, value in answers.parts().items()})
        verl = _numbers(metrics)
        rollout = trainer.config.actor_rollout_ref.rollout
        own = figures.step_figures(
            verl,
            answers.samples(),
            missing=max(0, trainer.config.data.train_batch_size * rollout.n - answers.sessions),
            max_response_length=trainer.attempt.max_response_length,
            grouped=rollout.n > 1,
            devices=trainer._get_n_gpus_for_throughput(),  # noqa: SLF001 - verl's
            kl=answers.kl(),
            device_memory=largest(trainer.actor_rollout_wg.device_memory()),
        )
        self.last_step_row = self._write(
            Row(
                kind=RowKind.STEP,
                step=step,
                time=time.time(),
                epoch=epoch,
                figures=own,
                verl={key: value for key, value in verl.items() if not key.startswith("val-")},
                batches=trainer.data.drawn,
            )
        )
        self._tell(step, answers.reward_errors())
        self._keep(TRAIN, step, [answers])

    def validation(self, metrics: dict[str, Any]) -> None:
        """`metrics` are those of verl's validation."""
        trainer, verl = self._trainer, _numbers(metrics)
        step, reward = trainer.global_steps, figures.validation_reward(verl)
        own = {} if reward is None else {"validationReward": reward}
        epoch = max(0, step - 1) // trainer.steps_per_epoch
        self._write(Row(kind=RowKind.VALIDATION, step=step, time=time.time(), epoch=epoch, figures=own, verl=verl))
        self._tell(step, [error for batch in self._validated for error in batch.reward_errors()])
        self._keep(VALIDATION, step, self._validated)
        self._validated = []

    def watching_validation(self, buffer: Any) -> Any:
        """Verl's replay buffer, whose validation batches are seen here: verl drops them before it gives the figures."""
        sample = buffer.sample

        def sample_and_see(*args: Any, **kwargs: Any) -> Any:
            batch, metrics = sample(*args, **kwargs)
            if not self._trainer.scores_later:
                self.scored(batch)
            return batch, metrics

        buffer.sample = sample_and_see
        return buffer

    def scored(self, batch: Any) -> None:
        """A batch has its rewards; those of a validation are kept."""
        if batch.partition_id == "val" and self._trainer.attempt.samples.validation:
            self._validated.append(Batch(batch))

    def flush(self) -> None:
        """All samples are on the volume."""
        if self._samples is not None:
            self._samples.flush()

    def begin_attempt(self) -> None:
        """Another attempt runs in this trainer."""
        self.last_step_row = None
        self._failing.clear()

    def _tell(self, step: int, errors: list[str]) -> None:
        """The first failure of each reward term."""
        for error in errors:
            term = error.partition(":")[0]
            if term not in self._failing:
                self._failing.add(term)
                self._trainer.files.event(step, REWARD_FAILED, error)

    def _keep(self, kind: str, step: int, batches: list[Batch]) -> None:
        trainer = self._trainer
        if self._samples is None or self._samples.layout != trainer.files.layout:
            self.flush()
            self._samples = SampleFiles(trainer.files.layout, trainer.attempt.samples)
        tokenizer, limit = trainer.tokenizer, trainer.attempt.max_response_length
        self._samples.write(
            kind, step, lambda: ({"step": step} | line for batch in batches for line in batch.lines(tokenizer, limit))
        )

    def _write(self, row: Row) -> Row:
        files = self._trainer.files
        journal.append(files.layout.journal, row)
        files.beat()
        return row


def _numbers(metrics: dict[str, Any]) -> dict[str, float]:
    """Those of verl's metrics that are numbers (some are tables)."""
    scalars = {key: number(plain(value)) for key, value in metrics.items() if not isinstance(value, str | dict | list)}
    return {key: value for key, value in scalars.items() if value is not None}
