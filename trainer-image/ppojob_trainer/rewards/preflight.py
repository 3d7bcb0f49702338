"""Rows scored before any device is taken: a reward that cannot work ends the attempt then, with its own words.

There is no policy to answer yet. Half of the rows are answered with their ground truth, half with a sentence that is
no answer: code that reads an answer meets both.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice
from pathlib import Path
from typing import Any

from ppojob_contract.attempt import AttemptConfig
from ppojob_trainer.errors import ConfigError, DataError
from ppojob_trainer.rewards.answers import Answer
from ppojob_trainer.rewards.functions import PROCESSES
from ppojob_trainer.rewards.terms import ERROR_KEY, Term, build, total

log = logging.getLogger(__name__)

ROWS = 16
NO_ANSWER = "I do not know."


def check(attempt: AttemptConfig, waiting: Callable[[], None]) -> list[str]:
    """What went wrong on some rows, a line a term. `waiting` is called now and then.

    Raises ConfigError for a term that cannot be loaded or that fails on every row, DataError for data that cannot be
    read.
    """
    terms = []
    try:
        for spec in attempt.reward_terms:
            terms.append(_loaded(spec))
            waiting()
        if not any(term.tried for term in terms):
            return []
        answers = list(_answers(attempt.overrides.get("data.train_files") or ()))
        return [found for term in terms if term.tried and (found := _failures(term, answers, waiting))]
    finally:
        for term in terms:
            term.close()


def _loaded(spec: Mapping[str, Any]) -> Term:
    try:
        term = build(spec)
        term.load()
    except Exception as error:
        raise ConfigError(f"reward term {spec.get('name')}: {error}") from error
    return term


def _failures(term: Term, answers: Sequence[Answer], waiting: Callable[[], None]) -> str:
    errors = []
    threads = ThreadPoolExecutor(max_workers=PROCESSES)
    try:
        for scored in as_completed([threads.submit(total, [term], answer) for answer in answers]):
            waiting()
            if error := str(scored.result()[ERROR_KEY]):
                errors.append(error)
    finally:
        threads.shutdown(cancel_futures=True)
    if not errors:
        return ""
    what = f"reward term {errors[0]}"
    if len(errors) == len(answers):
        raise ConfigError(f"{what}; so on each of {len(answers)} rows, tried before training")
    return f"{errors[0]}; on {len(errors)} of {len(answers)} rows, tried before training"


def _answers(files: Sequence[str]) -> Iterator[Answer]:
    for number, row in enumerate(islice(_rows(files), ROWS)):
        given = row.get("reward_model")
        truth = given.get("ground_truth") if isinstance(given, Mapping) else None
        response = truth if isinstance(truth, str) and number % 2 == 0 else NO_ANSWER
        yield Answer(
            response=response,
            ground_truth=truth,
            data_source=row.get("data_source"),
            extra_info=row.get("extra_info") or {},
            prompt=[message for message in row.get("prompt") or () if isinstance(message, Mapping)],
            tokens=len(response.split()),  # about so many: no tokenizer is loaded yet
        )


def _rows(files: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """Of Parquet files; others are verl's to read."""
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415 - not where nothing can be tried
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # noqa: PLC0415

    for path in files:
        if Path(path).suffix != ".parquet":
            log.warning("rewards are not tried on %s before training: only Parquet files are read for that", path)
            continue
        try:
            for batch in pq.ParquetFile(path).iter_batches(batch_size=ROWS):
                yield from batch.to_pylist()
        except (OSError, pa.ArrowInvalid) as error:
            raise DataError(f"data cannot be read: {path}: {error}") from error
