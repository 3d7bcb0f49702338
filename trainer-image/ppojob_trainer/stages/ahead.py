"""What evaluation and export will need, looked at before training begins: days later is late for a wrong path.

Nothing is read beyond the first row of each file, and no model is loaded.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ppojob_contract.attempt import AttemptConfig
from ppojob_contract.stages import Stage
from ppojob_trainer.errors import AttemptError, ConfigError, DataError
from ppojob_trainer.stages import model_files
from ppojob_trainer.stages.evaluate.settings import (
    EndpointJudge,
    RewardModelJudge,
    judge_of,
    side_of,
    source_of,
)
from ppojob_trainer.stages.export import placing

log = logging.getLogger(__name__)


def check(attempt: AttemptConfig) -> None:
    """Raises ConfigError or DataError that names the field. A judge that is silent now is only told of in the log."""
    evaluation = attempt.afterwards.get(Stage.EVALUATE.value)
    if evaluation is not None:
        _prompts(evaluation["prompts"])
        _judge(evaluation["judge"])
        if evaluation["baseline"] is not None:
            _baseline(evaluation["baseline"])
    export = attempt.afterwards.get(Stage.EXPORT.value)
    if export is not None and export["target"] is not None:
        placing.check_ahead(Path(export["target"]), attempt.uid)


def _prompts(told: list[Mapping[str, Any]]) -> None:
    from ppojob_trainer.stages.evaluate import prompt_files, questions  # noqa: PLC0415 - not where nothing is evaluated

    for item in told:
        source = source_of(item)
        with _of_field(f"spec.evaluation.prompts[{item['name']}]"):
            for path in source.files:
                row = next(prompt_files.rows_of(path, source), None)
                if row is None:
                    raise DataError(f"{path} has no rows")
                questions.parsed(0, row, source)


def _judge(told: Mapping[str, Any]) -> None:
    match judge_of(told):
        case RewardModelJudge(path=path):
            with _of_field("spec.evaluation.judge"):
                model_files.require_reward_model(path)
        case EndpointJudge() as judge:
            with _of_field("spec.evaluation.judge.endpoint"):
                asyncio.run(_ask(judge))
        case _:  # reward terms: tried as what they are in training
            pass


async def _ask(judge: EndpointJudge) -> None:
    from ppojob_trainer.stages.evaluate import endpoint  # noqa: PLC0415 - not where another judges

    async with endpoint.opened(judge) as opened:
        silent = await opened.try_once()
    if silent is not None:
        log.warning("judge %s does not answer before training; it has to once training is done: %s", judge.url, silent)


def _baseline(told: Mapping[str, Any]) -> None:
    side = side_of(told)
    with _of_field("spec.evaluation.baseline.path"):
        if not side.is_checkpoint:
            model_files.require(side.path)
        elif not Path(side.path).is_dir():
            raise ConfigError(f"checkpoint {side.path} is not there")


@contextmanager
def _of_field(field: str) -> Iterator[None]:
    try:
        yield
    except AttemptError as error:
        raise type(error)(f"{field}: {error} (looked at before training)") from error
