"""Export around the merging itself, which needs torch (`trainer-image/checks/exported.py`)."""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.trainer.preparing import key_of

from ppojob_contract import manifest as manifests
from ppojob_contract.durable import read_json
from ppojob_contract.manifest import Manifest
from ppojob_contract.outcomes import ExitClass, Outcome
from ppojob_contract.stages import Stage, StageConfig, StageLayout
from ppojob_trainer.stages import runner
from ppojob_trainer.stages.context import StageContext
from ppojob_trainer.stages.export import card, placing, program
from ppojob_trainer.stages.export.settings import DType, ExportSettings, Format

WEIGHTS = os.urandom(2 << 20)


@dataclass(frozen=True)
class Merged:
    parameters: int = 115_264
    dtype: str = "float32"


def write(checkpoint: Path, model: str, target: Path, **options: Any) -> Merged:
    """Stands in for `merging.merge`."""
    options["beat"]()
    (target / "model.safetensors").write_bytes(WEIGHTS)
    (target / "model.safetensors").chmod(0o600)
    (target / "config.json").write_text("{}")
    return Merged()


def settings(**changes: Any) -> dict[str, Any]:
    return {
        "checkpoint": "/ppojob/storage/j/attempts/0002/checkpoints/global_step_20",
        "model": "org/base",
        "card": {"job": "sums"},
        **changes,
    }


def export(
    root: Path, values: Mapping[str, Any], writes: Callable[..., Any] = write, *, uid: str = "u"
) -> tuple[StageLayout, Outcome]:
    """The next run of these settings."""
    layout = StageLayout.of(root / uid, Stage.EXPORT, key_of(values))
    config = StageConfig(
        namespace="research",
        name="sums",
        uid=uid,
        root=str(root / uid),
        stage=Stage.EXPORT,
        run=max(layout.runs(), default=0) + 1,
        key=key_of(values),
        settings=values,
    )

    def run(context: StageContext) -> None:
        parsed = ExportSettings.from_json(context.settings)
        if parsed.target:
            placing.check(Path(parsed.target), program.origin_of(context))
        program.finish(context, parsed, writes)

    runner.run(config, run)
    return layout, Outcome.from_json(read_json(layout.run(config.run).outcome))


def never(*_: Any, **__: Any) -> Merged:
    pytest.fail("merged again")


def test_the_output(tmp_path: Path) -> None:
    layout, outcome = export(tmp_path, settings())
    assert outcome.exit_class is ExitClass.SUCCEEDED
    assert outcome.message == "model of 115,264 parameters in float32, 2.1 MB"
    names = {"model.safetensors", "config.json", "README.md", "export.json", "result.json", "manifest.json"}
    assert {path.name for path in layout.output.iterdir()} == names
    assert (layout.output / "model.safetensors").stat().st_mode & 0o777 == 0o644
    figures = read_json(layout.result)["figures"]
    assert figures["parameters"] == 115_264
    assert figures["sizeBytes"] == pytest.approx(2 << 20, rel=0.01)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "exports" / "sums"


def test_the_target_appears_whole(tmp_path: Path, target: Path) -> None:
    values = settings(target=str(target))
    layout, outcome = export(tmp_path, values)
    assert outcome.message.endswith(f", at {target}")
    manifest = Manifest.from_json(read_json(target / manifests.NAME))
    assert set(manifest.files) == {"model.safetensors", "config.json", "README.md", "export.json"}
    assert manifests.problems(target, manifest) == []
    assert [path.name for path in target.parent.iterdir()] == ["sums"], "nothing is left beside"
    assert (target / "model.safetensors").samefile(layout.output / "model.safetensors"), "no second copy of the weights"
    assert not (target / "config.json").samefile(layout.output / "config.json"), "what people edit is their own"


def test_what_is_there_already_is_taken(tmp_path: Path, target: Path) -> None:
    """A run that was killed between the target and the output."""
    values = settings(target=str(target))
    layout, _ = export(tmp_path, values)
    before = {path: path.stat().st_mtime_ns for path in target.iterdir()}
    shutil.rmtree(layout.output)
    _, outcome = export(tmp_path, values)
    assert outcome.exit_class is ExitClass.SUCCEEDED
    assert {path: path.stat().st_mtime_ns for path in target.iterdir()} == before


def test_leftovers_of_a_killed_run_do_not_hinder(tmp_path: Path, target: Path) -> None:
    values = settings(target=str(target))
    for run in ("0001", "0007"):
        beside = target.with_name(f".sums.{key_of(values)}-{run}")
        beside.mkdir(parents=True)
        (beside / "half").write_text("x")
    another = target.with_name(".sums.another-0001")
    another.mkdir()
    _, outcome = export(tmp_path, values)
    assert outcome.exit_class is ExitClass.SUCCEEDED
    assert not (target / "half").exists()
    assert set(target.parent.glob(".*")) == {another}, "another job's may be under way"


def test_leftovers_go_where_the_model_was_placed_before_the_kill(tmp_path: Path, target: Path) -> None:
    values = settings(target=str(target))
    layout, _ = export(tmp_path, values)
    shutil.rmtree(layout.output)
    left = target.with_name(f".sums.{key_of(values)}-0001")
    left.mkdir()
    _, outcome = export(tmp_path, values)
    assert outcome.exit_class is ExitClass.SUCCEEDED
    assert not left.exists()


def foreign(target: Path) -> None:
    target.mkdir(parents=True)
    (target / "config.json").write_text("mine")


def empty(target: Path) -> None:
    target.mkdir(parents=True)


def a_file(target: Path) -> None:
    target.parent.mkdir(parents=True)
    target.write_text("mine")


@pytest.mark.parametrize("there", [foreign, empty, a_file])
def test_nothing_is_overwritten(tmp_path: Path, target: Path, there: Callable[[Path], None]) -> None:
    there(target)
    before = target.read_text() if target.is_file() else {path.name: path.read_text() for path in target.iterdir()}
    _, outcome = export(tmp_path, settings(target=str(target)), never)
    assert outcome.exit_class is ExitClass.DATA_ERROR
    assert "is there and not of this export: nothing is overwritten; name another folder" in outcome.message
    after = target.read_text() if target.is_file() else {path.name: path.read_text() for path in target.iterdir()}
    assert after == before


def test_another_job_s_export_is_not_overwritten(tmp_path: Path, target: Path) -> None:
    export(tmp_path, settings(target=str(target)), uid="other")
    _, outcome = export(tmp_path, settings(target=str(target)), never)
    assert outcome.exit_class is ExitClass.DATA_ERROR
    assert "is there and of research/sums" in outcome.message


def test_who_comes_first_stands(tmp_path: Path, target: Path) -> None:
    """The target appears while this run merges."""

    def slowly(*arguments: Any, **options: Any) -> Merged:
        foreign(target)
        return write(*arguments, **options)

    _, outcome = export(tmp_path, settings(target=str(target)), slowly)
    assert outcome.exit_class is ExitClass.DATA_ERROR
    assert [path.name for path in target.iterdir()] == ["config.json"]
    assert [path.name for path in target.parent.iterdir()] == ["sums"]


def test_a_damaged_target_is_told_of(tmp_path: Path, target: Path) -> None:
    values = settings(target=str(target))
    layout, _ = export(tmp_path, values)
    shutil.rmtree(layout.output)
    (target / "config.json").unlink()
    _, outcome = export(tmp_path, values, never)
    assert outcome.exit_class is ExitClass.STORAGE_ERROR
    assert "config.json is missing): remove it to have it made anew" in outcome.message


def test_a_relative_target(tmp_path: Path) -> None:
    _, outcome = export(tmp_path, settings(target="exports/sums"), never)
    assert "spec.export.path: exports/sums is no absolute path" in outcome.message


def test_where_files_cannot_be_linked_they_are_copied(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def other_volume(source: Path, to: Path) -> None:
        if target.name in str(to):
            raise OSError(18, "Invalid cross-device link")
        link(source, to)

    monkeypatch.setattr(os, "link", other_volume)
    layout, outcome = export(tmp_path, settings(target=str(target)))
    assert outcome.exit_class is ExitClass.SUCCEEDED
    assert (target / "model.safetensors").read_bytes() == WEIGHTS
    assert not (target / "model.safetensors").samefile(layout.output / "model.safetensors")


CARD: dict[str, Any] = {
    "job": "sums",
    "namespace": "research",
    "dataDigest": "abc123",
    "rollbacks": 1,
    "settings": {"learningRate": 1e-6, "klTarget": None},
    "attempts": [{"number": 1, "endedAs": "RolledBack"}, {"number": 2, "lastStep": 40}],
    "evaluation": {"winRate": 0.61, "winRate/writing": 0.7},
    "notes": ["a | b", "<script>", "two\nlines"],
    "empty": [],
}


def rendered(**changes: Any) -> str:
    values: dict[str, Any] = {"model": "org/base", "adapter": False, "dtype": "bfloat16", "parameters": 1234}
    return card.render(CARD, **(values | {"checkpoint": "/x/global_step_20"} | changes))


def test_the_card_has_what_is_known() -> None:
    text = rendered()
    for line in (
        "# sums",
        "| base model | org/base |",
        "| weights | merged, 1,234 parameters in bfloat16 |",
        "| data digest | abc123 |",
        "## Attempts",
        "| number | ended as | last step |",
        "| 1 | RolledBack |  |",
        "| 2 |  | 40 |",
        "## Settings",
        "| learning rate | 1e-06 |",
        "## Evaluation",
        "| win rate/writing | 0.7 |",
        "- a \\| b",
        "- &lt;script>",
        "- two lines",
    ):
        assert line in text.splitlines(), line
    assert "Empty" not in text


@pytest.mark.parametrize(
    ("model", "adapter", "expected"),
    [
        ("org/base", False, {"library_name": "transformers", "base_model": "org/base"}),
        ("org/base", True, {"library_name": "peft", "base_model": "org/base"}),
        ("/ppojob/storage/models/x", False, {"library_name": "transformers"}),
        ('org/od"d: name', False, {"library_name": "transformers", "base_model": 'org/od"d: name'}),
    ],
)
def test_the_card_s_front_matter_is_yaml(model: str, adapter: bool, expected: dict[str, Any]) -> None:
    _, matter, _ = rendered(model=model, adapter=adapter).split("---\n", 2)
    constant = {"pipeline_tag": "text-generation", "tags": ["rlhf", "ppo", "verl"]}
    assert yaml.safe_load(matter) == expected | constant


def test_a_card_without_facts() -> None:
    text = card.render({}, model="m", adapter=True, dtype="float32", parameters=1, checkpoint="c")
    assert "# model" in text
    assert json.dumps("peft") in text


def test_settings_as_they_are_rendered() -> None:
    plain = ExportSettings.from_json({"checkpoint": "/c", "model": "m"})
    assert (plain.format, plain.dtype, plain.target, plain.trust_remote_code) == (Format.MERGED, None, None, False)
    assert ExportSettings.from_json({"checkpoint": "/c", "model": "m", "dtype": "bfloat16"}).dtype is DType.BFLOAT16
    with pytest.raises(ValueError, match="int8"):
        ExportSettings.from_json({"checkpoint": "/c", "model": "m", "dtype": "int8"})
