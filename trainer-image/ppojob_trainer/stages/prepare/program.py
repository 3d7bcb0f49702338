"""Prepare: reads every source once, row by row, and writes Parquet for training and validation.

Nothing is taken up from a run that was killed: reading is quick beside training.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from ppojob_contract.durable import write_json
from ppojob_contract.manifest import sha256
from ppojob_contract.stages import StageResult
from ppojob_trainer.errors import DataError
from ppojob_trainer.stages.context import StageContext
from ppojob_trainer.stages.prepare import inputs, parquet
from ppojob_trainer.stages.prepare.recipes import recipe
from ppojob_trainer.stages.prepare.rows import Bad, Made, Raw, RowError
from ppojob_trainer.stages.prepare.settings import PrepareSettings, Source
from ppojob_trainer.stages.prepare.split import Sides, draw
from ppojob_trainer.stages.prepare.tally import OfSource, Tally, lengths_json
from ppojob_trainer.stages.prepare.tokens import Length, by_tokenizer

log = logging.getLogger(__name__)

_TELL_SECONDS = 5.0
PROMPTS, PAIRS = ("train.parquet", "validation.parquet"), ("pairs-train.parquet", "pairs-validation.parquet")


def run(context: StageContext) -> None:
    """Entry of the stage."""
    settings = PrepareSettings.from_json(context.settings)
    length = by_tokenizer(settings.tokenizer, trust_remote_code=settings.trust_remote_code)
    Preparation(context, settings, length).run()


class Preparation:
    """One pass over all sources."""

    def __init__(
        self,
        context: StageContext,
        settings: PrepareSettings,
        length: Length,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context = context
        self._settings = settings
        self._length = length
        self._monotonic = monotonic
        self._told_at = monotonic()
        self._tally = Tally(max_bad_rows=settings.max_bad_rows)
        self._prompts = self._sides(PROMPTS, parquet.PROMPTS)
        self._pairs = self._sides(PAIRS, parquet.PAIRS)
        self._files: list[dict[str, Any]] = []

    def run(self) -> None:
        settings, makers = self._settings, [recipe(source) for source in self._settings.sources]
        with self._bad_rows_kept():
            for source, make in zip(settings.sources, makers, strict=True):
                tally = self._tally.sources.setdefault(source.name, OfSource(source.recipe.value))
                for raw in self._rows(source):
                    self._context.check()
                    self._take(source, tally, raw, make)
                    self._tell()
            self._tally.check()
        self._prompts.close()
        self._pairs.close()
        self._check_sides()
        self._publish()

    def _rows(self, source: Source) -> Iterator[Raw | Bad]:
        """At most `maxRows` of the source's, from its files one after another."""
        left = source.max_rows
        for name in source.files:
            read = 0
            for raw in islice(inputs.rows(source, name), left):
                read += 1
                yield raw
            self._files.append(self._file(source, name, read))
            if left is not None:
                left -= read
                if left <= 0:
                    return

    def _file(self, source: Source, name: str, rows: int) -> dict[str, Any]:
        facts: dict[str, Any] = {"source": source.name, "file": name, "rows": rows}
        if not inputs.is_local(name):
            return facts | {
                "hub": source.hub.value,
                "configuration": source.configuration,
                "split": source.split,
                "revision": source.revision,
            }
        self._context.beat()
        return facts | {"bytes": Path(name).stat().st_size, "sha256": sha256(Path(name))}

    def _take(self, source: Source, tally: OfSource, raw: Raw | Bad, make: Callable[[Any], Made]) -> None:
        tally.rows_in += 1
        if isinstance(raw, Bad):
            self._tally.bad(tally, raw)
            return
        try:
            made = make(raw.value)
            kept, too_long = self._within_length(made)
        except RowError as error:
            self._tally.bad(tally, Bad(raw.file, raw.number, str(error)))
            return
        if not made.prompts and not made.pairs:
            tally.left_out += 1
            return
        tally.prompts_too_long += too_long
        wrote = self._write(source, tally, raw, kept)
        tally.rows_out += wrote
        tally.too_long += not wrote

    def _within_length(self, made: Made) -> tuple[Made, int]:
        """Without what is too long, and how many prompts that is. Equal prompts are counted once."""
        most, known = self._settings.max_prompt_length, dict[str, int]()

        def fits(messages: Any) -> bool:
            key = repr(messages)
            if key not in known:
                known[key] = self._length(messages)
            return known[key] <= most

        kept = Made(
            prompts=tuple(prompt for prompt in made.prompts if fits(prompt.messages)),
            pairs=tuple(pair for pair in made.pairs if fits(pair.messages)),
        )
        self._tally.lengths.update(known.values())
        return kept, sum(length > most for length in known.values())

    def _write(self, source: Source, tally: OfSource, raw: Raw, made: Made) -> bool:
        seed = self._settings.seed
        for prompt in made.prompts if source.prompts else ():
            ability = source.ability or prompt.ability or source.name
            row = {
                "data_source": source.name,
                "prompt": prompt.messages,
                "ability": ability,
                "reward_model": {"style": prompt.style, "ground_truth": prompt.ground_truth},
                "extra_info": {"index": tally.rows_in - 1, "source": raw.file, "line": raw.number},
            }
            self._tally.abilities[ability] += 1
            tally.without_answer += not prompt.ground_truth
            self._prompts.add(row, draw(seed, prompt.messages))
        for pair in made.pairs if source.pairs else ():
            row = {"prompt": pair.messages, "chosen": pair.chosen, "rejected": pair.rejected}
            self._pairs.add(row, draw(seed, pair.messages))
        return bool((made.prompts and source.prompts) or (made.pairs and source.pairs))

    def _sides(self, names: tuple[str, str], schema: Any) -> Sides:
        output = self._context.output
        waiting = self._context.work / f"waiting-{self._context.config.run}-{names[1]}"
        fraction, most = self._settings.validation_fraction, self._settings.validation_max_rows
        return Sides(output / names[0], output / names[1], waiting, schema, fraction=fraction, most=most)

    def _check_sides(self) -> None:
        """Raises DataError where nothing is left to train on or to validate with."""
        fraction = self._settings.validation_fraction
        for used, what, sides in (
            (any(source.prompts for source in self._settings.sources), "prompts", self._prompts),
            (any(source.pairs for source in self._settings.sources), "pairs", self._pairs),
        ):
            train, validation = sides.train.rows, sides.validation.rows
            if used and not train + validation:
                counts = ", ".join(f"{name} {value}" for name, value in self._tally.figures().items())
                raise DataError(f"no {what} are left ({counts}): look at maxPromptLength and the sources")
            if used and (not train or (fraction and not validation)):
                side = "validation" if train else "training"
                raise DataError(
                    f"none of {train + validation} {what} is for {side} (validationFraction {fraction:g}, by seed): "
                    "give more rows or another validationFraction"
                )

    def _figures(self) -> dict[str, int]:
        return self._tally.figures() | {
            "trainRows": self._prompts.train.rows,
            "validationRows": self._prompts.validation.rows,
            "pairsTrain": self._pairs.train.rows,
            "pairsValidation": self._pairs.validation.rows,
        }

    def _tell(self) -> None:
        now = self._monotonic()
        if now - self._told_at >= _TELL_SECONDS:
            self._told_at = now
            self._context.figures(self._figures() | self._tally.parts())

    def _publish(self) -> None:
        output, tally = self._context.output, self._tally
        write_json(
            output / "report.json",
            {
                **self._figures(),
                "sources": {name: source.to_json() for name, source in tally.sources.items()},
                "abilities": dict(tally.abilities),
                "promptTokens": lengths_json(tally.lengths),
                "maxPromptLength": self._settings.max_prompt_length,
                "badRows": _listed(tally),
                "inputs": self._files,
                "outputs": {
                    path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)}
                    for path in sorted(output.glob("*.parquet"))
                },
            },
        )
        figures = {name: float(value) for name, value in (self._figures() | tally.parts()).items()}
        self._context.figures(figures)
        self._context.publish(StageResult(message=_message(self._figures()), figures=figures))

    @contextmanager
    def _bad_rows_kept(self) -> Iterator[None]:
        """Where too many are bad there is no report; they are beside the run's outcome."""
        try:
            yield
        except DataError:
            if self._tally.listed:
                folder = self._context.files.layout.folder
                write_json(folder / "bad-rows.json", {"count": self._tally.total("bad"), "rows": _listed(self._tally)})
                for row in self._tally.listed:
                    log.error("%s, %s", row.file, row)  # noqa: TRY400 - the traceback says nothing more
            raise


def _listed(tally: Tally) -> list[dict[str, Any]]:
    return [{"file": row.file, "line": row.number, "reason": row.reason} for row in tally.listed]


def _message(figures: dict[str, int]) -> str:
    said = [f"{figures['rowsOut']} of {figures['rowsIn']} rows"]
    if figures["trainRows"]:
        said.append(f"{figures['trainRows']} prompts to train, {figures['validationRows']} to validate")
    if figures["pairsTrain"]:
        said.append(f"{figures['pairsTrain']} pairs to train, {figures['pairsValidation']} to validate")
    if figures["rowsDropped"] or figures["promptsTooLong"]:
        said.append(f"too long: {figures['promptsTooLong']}, bad: {figures['rowsBad']}")
    if figures["rowsLeftOutByFunction"]:
        said.append(f"left out by the function: {figures['rowsLeftOutByFunction']}")
    return "; ".join(said)
