"""A run of Prepare over files of a test, with words for tokens."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ppojob_contract.durable import read_json
from ppojob_contract.outcomes import ExitClass, Outcome
from ppojob_contract.stages import Stage, StageConfig, StageLayout
from ppojob_trainer.stages import runner
from ppojob_trainer.stages.context import StageContext
from ppojob_trainer.stages.prepare.program import Preparation
from ppojob_trainer.stages.prepare.settings import PrepareSettings


def words(messages: Sequence[Mapping[str, str]]) -> int:
    """Stands for the tokenizer, which needs transformers."""
    return sum(len(message["content"].split()) for message in messages)


def source(path: Path | str, recipe: str = "Prompts", **changes: Any) -> dict[str, Any]:
    return {"name": "rows", "recipe": recipe, "files": [str(path)], "hub": "HuggingFace", "split": "train"} | changes


def settings(*sources: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "sources": list(sources),
        "validationFraction": 0.25,
        "seed": 42,
        "maxPromptLength": 512,
        "tokenizer": "/model",
    }
    return values | changes


@dataclass(frozen=True)
class Prepared:
    """What a run left."""

    layout: StageLayout
    outcome: Outcome
    run: int

    def table(self, name: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = pq.read_table(self.layout.output / name).to_pylist()
        return rows

    def prompts(self) -> list[dict[str, Any]]:
        """Of both sides."""
        return [row for name in ("train.parquet", "validation.parquet") if self.there(name) for row in self.table(name)]

    def there(self, name: str) -> bool:
        return (self.layout.output / name).exists()

    @property
    def report(self) -> dict[str, Any]:
        value: dict[str, Any] = read_json(self.layout.output / "report.json")
        return value

    @property
    def bad_rows(self) -> dict[str, Any]:
        value: dict[str, Any] = read_json(self.layout.run(self.run).folder / "bad-rows.json")
        return value


def key_of(values: Mapping[str, Any]) -> str:
    """Another one for other settings, as the operator makes them."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def prepare(root: Path, values: Mapping[str, Any]) -> Prepared:
    """The next run of these settings."""
    layout = StageLayout.of(root / "job", Stage.PREPARE, key_of(values))
    run = max(layout.runs(), default=0) + 1
    config = StageConfig(
        namespace="research",
        name="sums",
        uid="0b1c2d3e",
        root=str(root / "job"),
        stage=Stage.PREPARE,
        run=run,
        key=key_of(values),
        settings=values,
    )

    def program(context: StageContext) -> None:
        Preparation(context, PrepareSettings.from_json(context.settings), words).run()

    runner.run(config, program)
    return Prepared(layout, Outcome.from_json(read_json(layout.run(run).outcome)), run)


def fails(root: Path, values: Mapping[str, Any], exit_class: ExitClass = ExitClass.DATA_ERROR) -> str:
    """The message of a run that ends with `exit_class` and leaves no output."""
    prepared = prepare(root, values)
    assert prepared.outcome.exit_class is exit_class, prepared.outcome
    assert not prepared.layout.output.exists()
    return prepared.outcome.message


def lines(*rows: Mapping[str, Any]) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def numbered(count: int) -> list[dict[str, Any]]:
    return [{"prompt": f"question {number}", "answer": str(number)} for number in range(count)]
