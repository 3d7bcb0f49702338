"""The preStop hook: the attempt is asked to stop, and the first process can be told to end."""

import os
import signal
import sys
from pathlib import Path

import pytest
from tests.unit.trainer.builders import content, started

from ppojob_contract import names
from ppojob_contract.durable import write_json_once
from ppojob_contract.layout import JobLayout
from ppojob_contract.mailbox import Command, CommandKind
from ppojob_contract.outcomes import ExitClass, Outcome
from ppojob_contract.stages import Stage, StageLayout, StageRunLayout
from ppojob_trainer import stop as stop_module
from ppojob_trainer.attempt_files import AttemptFiles
from ppojob_trainer.run_files import RunFiles
from ppojob_trainer.stop import stop, wait_for_handler


def test_prestop_puts_a_stop_and_waits(tmp_path: Path) -> None:
    job = JobLayout(tmp_path)
    layout = started(job, 1)
    slept: list[float] = []

    def trainer(seconds: float) -> None:
        slept.append(seconds)
        AttemptFiles(layout).finish(Outcome(exit_class=ExitClass.STOPPED, message="m", step=1))

    assert stop(job, "pod-1", 5.0, (), trainer) == "attempt 1 has ended"
    command = Command.from_json(content(layout.command))
    assert (command.kind, command.id) == (CommandKind.STOP, "prestop-pod-1")
    assert slept
    assert stop(job, "pod-1", 5.0, (), trainer) == "no attempt is running"


def test_prestop_with_a_taken_slot_asks_by_the_other_way(tmp_path: Path) -> None:
    layout = started(JobLayout(tmp_path), 1)
    write_json_once(layout.command, Command(id="r", kind=CommandKind.ROLLBACK).to_json())
    assert "not ended" in stop(JobLayout(tmp_path), "pod-1", 0.0, ())
    assert AttemptFiles(layout).stop_request.exists()


def never(_: float) -> None:
    raise AssertionError("waits")


def test_prestop_does_not_wait_for_the_dead(tmp_path: Path) -> None:
    layout = started(JobLayout(tmp_path), 1)
    lock = tmp_path / "driver.lock"
    lock.touch()
    assert "no driver" in stop(JobLayout(tmp_path), "pod-1", 60.0, (lock,), never)
    assert not layout.command.exists()


def test_a_head_pod_in_the_place_of_a_lost_one_does_not_wait_for_its_driver(tmp_path: Path) -> None:
    """KubeRay makes it at once; the attempt died with the first one and left no outcome."""
    job = JobLayout(tmp_path / "claim")
    layout = started(job, 1)
    run = tmp_path / "run"
    run.mkdir()
    assert "no driver" in stop(job, "pod-2", 60.0, (run / "driver.lock", run / "runner.lock"), never)
    assert not layout.command.exists()


def test_a_worker_pod_waits_for_the_driver_that_is_elsewhere(tmp_path: Path) -> None:
    job = JobLayout(tmp_path / "claim")
    layout = started(job, 1)

    def trainer(_: float) -> None:
        AttemptFiles(layout).finish(Outcome(exit_class=ExitClass.STOPPED, message="m", step=1))

    elsewhere = tmp_path / "not-mounted"
    said = stop(job, "pod-3", 60.0, (elsewhere / "driver.lock", elsewhere / "runner.lock"), trainer)
    assert said == "attempt 1 has ended"


def test_prestop_without_attempts(tmp_path: Path) -> None:
    assert stop(JobLayout(tmp_path), "pod-1", 60.0, ()) == "no attempt is running"


def begun_stage(root: Path, key: str, at: float) -> RunFiles[StageRunLayout]:
    files = RunFiles(StageLayout.of(root, Stage.REWARD, key).run(1))
    files.begin({})
    os.utime(files.layout.started, (at, at))
    files.beat()
    return files


def test_prestop_stops_the_stage_that_runs(tmp_path: Path) -> None:
    killed, running = begun_stage(tmp_path, "aaa", 1000.0), begun_stage(tmp_path, "bbb", 2000.0)

    def program(_: float) -> None:
        assert running.stop_requested()
        running.finish(Outcome(exit_class=ExitClass.STOPPED, message="m", step=0))

    assert stop(JobLayout(tmp_path), "pod-1", 5.0, (), program) == "the stage has ended"
    assert not killed.stop_requested()
    assert stop(JobLayout(tmp_path), "pod-1", 5.0, (), program) == "no attempt is running"


def test_prestop_does_not_wait_for_a_dead_stage(tmp_path: Path) -> None:
    stage = begun_stage(tmp_path, "aaa", 1000.0)
    lock = tmp_path / "driver.lock"
    lock.touch()
    assert stop(JobLayout(tmp_path), "pod-1", 60.0, (lock,)) == "no attempt is running"
    os.utime(stage.layout.heartbeat, (1000.0, 1000.0))
    assert stop(JobLayout(tmp_path), "pod-1", 60.0, ()) == "no attempt is running"
    assert not stage.stop_requested()


def test_prestop_gives_a_stage_so_much_time_and_no_more(tmp_path: Path) -> None:
    stage = begun_stage(tmp_path, "aaa", 1000.0)
    assert stop(JobLayout(tmp_path), "pod-1", 0.0, ()) == "the stage has not ended within 0 s"
    assert stage.stop_requested()


def _caught(*numbers: signal.Signals) -> str:
    mask = sum(1 << number - 1 for number in numbers)
    return f"Name:\tray\nSigIgn:\t0000000000001000\nSigCgt:\t{mask:016x}\nNoNewPrivs:\t1\n"


def test_prestop_waits_until_the_first_process_can_be_told_to_end(tmp_path: Path) -> None:
    process = tmp_path / "status"
    process.write_text(_caught(signal.SIGINT))
    slept: list[float] = []

    def start(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            process.write_text(_caught(signal.SIGINT, signal.SIGTERM))

    assert "takes SIGTERM" in wait_for_handler(60.0, process, start)
    assert len(slept) == 3


def test_prestop_does_not_wait_for_ever_for_a_process_that_is_deaf(tmp_path: Path) -> None:
    process = tmp_path / "status"
    process.write_text(_caught(signal.SIGINT))
    assert "no SIGTERM" in wait_for_handler(0.0, process)


def test_the_signals_of_a_real_process_are_read() -> None:
    own = Path("/proc/self/status")
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        assert "no SIGTERM" in wait_for_handler(0.0, own)
        signal.signal(signal.SIGTERM, lambda *_: None)
        assert "takes SIGTERM" in wait_for_handler(0.0, own)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_the_hook_ends_well_whatever_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.delenv(names.ENV_JOB_ROOT, raising=False)
    monkeypatch.setattr(sys, "argv", ["ppojob-stop"])
    monkeypatch.setattr(stop_module, "HANDLER_SECONDS", 0.0)
    assert stop_module.main() == 0
    said = capsys.readouterr().out.splitlines()
    assert "cannot stop" in said[0]
    assert "SIGTERM" in said[1]
