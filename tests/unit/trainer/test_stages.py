"""Runs of a stage: what is there after each of them, whatever ended it."""

import json
import logging
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.trainer.builders import content

from ppojob_contract import manifest as manifests
from ppojob_contract import names
from ppojob_contract.manifest import Manifest
from ppojob_contract.outcomes import ExitClass, Outcome
from ppojob_contract.stages import Stage, StageConfig, StageLayout, StageResult
from ppojob_trainer import locks, redaction
from ppojob_trainer.errors import DataError
from ppojob_trainer.exit_codes import EXIT_DUPLICATE, EXIT_FAILED, EXIT_LOCKED, EXIT_OK, EXIT_USAGE
from ppojob_trainer.stages import context as contexts
from ppojob_trainer.stages import runner
from ppojob_trainer.stages.context import StageContext
from ppojob_trainer.stages.outputs import draft

SETTINGS: dict[str, Any] = {"sources": [], "seed": 42}


@pytest.fixture
def config(tmp_path: Path) -> StageConfig:
    return StageConfig(
        namespace="research",
        name="sums",
        uid="0b1c2d3e-0000-0000-0000-000000000000",
        root=str(tmp_path / "job"),
        stage=Stage.PREPARE,
        run=1,
        key="0123456789abcdef",
        settings=SETTINGS,
    )


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def layout_of(config: StageConfig) -> StageLayout:
    return StageLayout.of(Path(config.root), config.stage, config.key)


def outcome_of(config: StageConfig) -> Outcome:
    return Outcome.from_json(content(layout_of(config).run(config.run).outcome))


def again(config: StageConfig) -> StageConfig:
    return replace(config, run=config.run + 1)


def two_parts(context: StageContext) -> None:
    """Makes each part once: a part that is in `work` is not made again."""
    for part in ("first", "second"):
        context.check()
        made = context.work / part
        if not made.exists():
            temporary = context.work / f"{part}.new"
            temporary.write_text(part)
            temporary.rename(made)
        shutil.copy(made, context.output / f"{part}.txt")
        context.figures({"parts": 1})
    context.publish(StageResult(message="both parts", figures={"parts": 2.0}))


def unwanted(context: StageContext) -> None:
    pytest.fail("the program was run although the output is there")


def assert_whole(config: StageConfig) -> None:
    output = layout_of(config).output
    manifest = Manifest.from_json(content(output / manifests.NAME))
    assert set(manifest.files) == {"first.txt", "second.txt", "result.json"}
    assert all(entry.sha256 for entry in manifest.files.values())
    assert manifests.problems(output, manifest) == []
    assert content(layout_of(config).result) == {"message": "both parts", "figures": {"parts": 2.0}}


def files_of(folder: Path) -> dict[Path, int]:
    """With the time of each file's last change."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_a_run_leaves_its_output_and_says_so(config: StageConfig) -> None:
    assert runner.run(config, two_parts) == EXIT_OK
    assert_whole(config)
    assert outcome_of(config) == Outcome(exit_class=ExitClass.SUCCEEDED, message="both parts", step=0)
    run = layout_of(config).run(1)
    assert content(run.config) == config.to_json()
    assert content(run.figures) == {"parts": 1.0}
    assert run.heartbeat.exists()
    assert not (run.folder / "reserve").exists()
    assert not layout_of(config).work.exists(), "what only served to make it is gone"


def test_what_is_finished_is_not_repeated(config: StageConfig) -> None:
    runner.run(config, two_parts)
    before = files_of(layout_of(config).output)
    assert runner.run(again(config), unwanted) == EXIT_OK
    assert outcome_of(again(config)).message == "was complete already: both parts"
    assert files_of(layout_of(config).output) == before


def test_other_settings_are_other_work(config: StageConfig) -> None:
    runner.run(config, two_parts)
    other = replace(config, key="fedcba9876543210")
    assert runner.run(other, two_parts) == EXIT_OK
    assert layout_of(other).output != layout_of(config).output
    assert outcome_of(other).message == "both parts"


def test_a_run_that_was_started_before_is_refused(config: StageConfig) -> None:
    runner.run(config, two_parts)
    before = files_of(Path(config.root))
    assert runner.run(config, unwanted) == EXIT_DUPLICATE
    assert files_of(Path(config.root)) == before


def cut(output: Path) -> None:
    (output / "first.txt").write_text("fir")


def other_content(output: Path) -> None:
    (output / "first.txt").write_text("fIrst")


def missing(output: Path) -> None:
    (output / "second.txt").unlink()


def cut_manifest(output: Path) -> None:
    (output / manifests.NAME).write_text('{"attempt": 1')


def no_manifest(output: Path) -> None:
    (output / manifests.NAME).unlink()


def empty(output: Path) -> None:
    for path in output.iterdir():
        path.unlink()


@pytest.mark.parametrize("damage", [cut, other_content, missing, cut_manifest, no_manifest, empty])
def test_a_damaged_output_is_made_anew(config: StageConfig, damage: Callable[[Path], None]) -> None:
    runner.run(config, two_parts)
    damage(layout_of(config).output)
    assert runner.run(again(config), two_parts) == EXIT_OK
    assert outcome_of(again(config)).message == "both parts"
    assert_whole(config)
    assert sorted(path.name for path in layout_of(config).folder.iterdir()) == ["output", "runs"]


EFFECTS = [(os, "fsync"), (os, "link"), (Path, "rename"), (Path, "replace"), (Path, "unlink"), (shutil, "rmtree")]


def die_at(effect: int) -> list[int]:
    """Arms this process: it dies at the effect of that number. The list holds the number reached."""
    reached = [0]
    for owner, name in EFFECTS:
        original = getattr(owner, name)

        def counted(*args: Any, _original: Any = original, **kwargs: Any) -> Any:
            reached[0] += 1
            if reached[0] == effect:
                os.kill(os.getpid(), signal.SIGKILL)
            return _original(*args, **kwargs)

        setattr(owner, name, counted)
    return reached


def killed_at(config: StageConfig, effect: int) -> bool:
    """Runs the stage in a process of its own; whether that died (else it had fewer effects)."""
    child = os.fork()
    if child == 0:
        logging.disable()
        die_at(effect)
        runner.run(config, two_parts)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_killed_at_any_point_the_next_run_goes_on(config: StageConfig, tmp_path: Path) -> None:
    effect = 0
    while True:
        effect += 1
        mine = replace(config, root=str(tmp_path / str(effect)))
        if not killed_at(mine, effect):
            break
        if layout_of(mine).output.exists():
            assert_whole(mine)
        assert runner.run(again(mine), two_parts) == EXIT_OK, effect
        assert_whole(mine)
    assert effect > 20, "the effects are seen"


@pytest.mark.parametrize("damaged", [False, True])
def test_killed_again_and_again_it_comes_to_an_end(config: StageConfig, damaged: bool) -> None:
    """Run N dies at its N-th effect."""
    if damaged:
        runner.run(config, two_parts)
        cut(layout_of(config).output)
        config = again(config)
    for effect in range(1, 100):
        if not killed_at(config, effect):
            break
        config = again(config)
    assert_whole(config)


def test_a_run_that_lives_on_does_not_mix_into_another_s_output(config: StageConfig) -> None:
    """Its pod was taken for lost: both make the output, and the first to finish stands."""

    def overtaken(context: StageContext) -> None:
        (context.output / "first.txt").write_text("of the slow one")
        assert runner.run(again(config), two_parts) == EXIT_OK
        context.output.mkdir(parents=True, exist_ok=True)
        (context.output / "third.txt").write_text("of the slow one")
        context.publish(StageResult(message="slow"))

    assert runner.run(config, overtaken) == EXIT_OK
    assert_whole(config)
    assert outcome_of(config).message == "both parts"


def test_drafts_of_earlier_runs_go_and_work_stays(config: StageConfig) -> None:
    layout = layout_of(config)
    draft(layout, 7).mkdir(parents=True)
    (draft(layout, 7) / "half").write_text("x")
    (layout.work / "checkpoint").mkdir()

    def program(context: StageContext) -> None:
        assert sorted(path.name for path in context.work.iterdir()) == ["checkpoint", "output-0008"]
        assert list(context.output.iterdir()) == []
        two_parts(context)

    assert runner.run(replace(config, run=8), program) == EXIT_OK


def test_sigterm_ends_it_and_the_next_run_goes_on(config: StageConfig) -> None:
    def terminated(context: StageContext) -> None:
        (context.work / "first").write_text("first")
        context.check()
        os.kill(os.getpid(), signal.SIGTERM)
        context.check()
        pytest.fail("it goes on")

    assert runner.run(config, terminated) == EXIT_OK
    assert outcome_of(config).exit_class is ExitClass.STOPPED
    assert not layout_of(config).output.exists()
    assert (layout_of(config).work / "first").exists()
    assert runner.run(again(config), two_parts) == EXIT_OK
    assert_whole(config)


def test_a_stop_and_the_heartbeat_cost_little_at_every_row(
    config: StageConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program(context: StageContext) -> None:
        now = [0.0]
        context = StageContext(context.config, context.files, monotonic=lambda: now[0])
        beats: list[float] = []
        monkeypatch.setattr(context.files, "beat", lambda: beats.append(now[0]))
        for _ in range(1000):
            now[0] += 0.01
            context.check()
        assert len(beats) == pytest.approx(10 / contexts.LOOK_SECONDS, abs=1)
        raise DataError("enough")

    runner.run(config, program)
    assert outcome_of(config).message == "enough"


def fails_with(error: BaseException) -> runner.Program:
    def program(context: StageContext) -> None:
        raise error

    return program


@pytest.mark.parametrize(
    ("error", "exit_class", "message"),
    [
        (DataError("a.jsonl, line 3: cut off"), ExitClass.DATA_ERROR, "a.jsonl, line 3: cut off"),
        (OSError(28, "No space left on device"), ExitClass.STORAGE_ERROR, "No space left on device"),
        (MemoryError("of the host"), ExitClass.OUT_OF_MEMORY, "of the host"),
        (RuntimeError("no idea\nof it"), ExitClass.UNKNOWN, "no idea"),
        (SystemExit(3), ExitClass.UNKNOWN, "SystemExit: 3"),
        (KeyboardInterrupt(), ExitClass.UNKNOWN, "KeyboardInterrupt"),
    ],
)
def test_what_it_ended_with(config: StageConfig, error: BaseException, exit_class: ExitClass, message: str) -> None:
    assert runner.run(config, fails_with(error)) == EXIT_FAILED
    outcome = outcome_of(config)
    assert outcome.exit_class is exit_class
    assert message in outcome.message
    assert "\n" not in outcome.message
    assert not layout_of(config).output.exists()


def test_a_program_that_publishes_nothing_has_failed(config: StageConfig) -> None:
    assert runner.run(config, lambda _: None) == EXIT_FAILED
    assert "ended without an output" in outcome_of(config).message


def test_no_secret_in_messages_and_logs(
    config: StageConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf-secret-of-ours")
    monkeypatch.setenv("PPOJOB_JUDGE_API_KEY", "judge-secret")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    text = (
        "401 for https://hub/x?token=hf-secret-of-ours with Bearer abc.def and judge-secret, is false; "
        "https://me:password@host/x; hf_0123456789abcdefABCDEF"
    )
    hidden = "401 for https://hub/x?token=*** with Bearer *** and ***, is false; https://***@host/x; ***"
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    redaction.log_without_secrets()
    runner.run(config, fails_with(DataError(text)))
    assert outcome_of(config).message == hidden
    logged = capsys.readouterr().err
    assert hidden in logged, "the traceback too"
    assert "secret" not in logged

    def program(context: StageContext) -> None:
        context.publish(StageResult(message=text))

    runner.run(again(config), program)
    assert content(layout_of(config).result)["message"] == hidden


@pytest.mark.parametrize("text", [None, "", "[]", "{}", '{"stage": "Training"}'])
def test_what_is_no_configuration(text: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(names.ENV_STAGE, raising=False)
    if text is not None:
        monkeypatch.setenv(names.ENV_STAGE, text)
    assert runner.main() == EXIT_USAGE


def test_one_driver_a_pod(config: StageConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / "driver.lock"
    monkeypatch.setattr(names, "DRIVER_LOCK", str(lock))
    monkeypatch.setattr(runner, "LOCK_WAIT_SECONDS", 0)
    monkeypatch.setenv(names.ENV_STAGE, json.dumps(config.to_json()))
    with locks.held(lock, 0):
        assert runner.main() == EXIT_LOCKED
    assert not layout_of(config).folder.exists(), "it does not count as started"
