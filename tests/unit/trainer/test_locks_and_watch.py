import os
import time
from pathlib import Path

import pytest
from tests.unit.trainer.builders import attempt_config, content, event_row, resume_from, started, step_row

from ppojob_contract.durable import read_json, write_json_once
from ppojob_contract.layout import JobLayout
from ppojob_contract.mailbox import Command, CommandKind
from ppojob_contract.outcomes import ExitClass, Outcome
from ppojob_contract.protocol import LockState
from ppojob_trainer import locks
from ppojob_trainer.attempt_files import AttemptFiles
from ppojob_trainer.errors import HangError, Stopped
from ppojob_trainer.run_files import RESERVE_BYTES
from ppojob_trainer.watch import Watch

STOP = Command(id="c9", kind=CommandKind.STOP)


def test_lock_states(tmp_path: Path) -> None:
    path = tmp_path / "run" / "driver.lock"
    assert locks.state(path) is LockState.FREE
    with locks.held(path, 0.0) as mine:
        assert mine
        assert locks.state(path) is LockState.HELD
        with locks.held(path, 0.15) as second:
            assert not second
    assert locks.state(path) is LockState.FREE


def test_an_attempt_begins_once(tmp_path: Path) -> None:
    files = AttemptFiles(JobLayout(tmp_path).attempt(1))
    assert files.begin({"podUID": "p"})
    before = files.layout.started.read_text()
    assert not AttemptFiles(files.layout).begin({"podUID": "q"})
    assert files.layout.started.read_text() == before


def test_space_for_the_outcome_is_kept_free(tmp_path: Path) -> None:
    files = AttemptFiles(JobLayout(tmp_path).attempt(1))
    files.begin({})
    files.reserve()
    assert (files.layout.folder / "reserve").stat().st_size == RESERVE_BYTES
    files.finish(Outcome(exit_class=ExitClass.STORAGE_ERROR, message="full", step=3))
    assert not (files.layout.folder / "reserve").exists()


def test_the_first_outcome_stands(tmp_path: Path) -> None:
    files = AttemptFiles(JobLayout(tmp_path).attempt(1))
    files.finish(Outcome(exit_class=ExitClass.HANG, message="first", step=3))
    files.finish(Outcome(exit_class=ExitClass.SUCCEEDED, message="second", step=4))
    outcome = files.outcome()
    assert outcome is not None
    assert outcome.message == "first"


def make_watch(tmp_path: Path, clock: list[float] | None = None) -> tuple[Watch, AttemptFiles]:
    files = AttemptFiles(started(JobLayout(tmp_path), 1))
    config = attempt_config(tmp_path, graceful_stop_seconds=60, startup_timeout_seconds=1800, step_timeout_seconds=600)
    now = clock if clock is not None else [0.0]
    return Watch(config, files, monotonic=lambda: now[0]), files


def test_nothing_to_do(tmp_path: Path) -> None:
    make_watch(tmp_path)[0].check()


def test_a_stop_before_training_is_obeyed_at_once(tmp_path: Path) -> None:
    watch, files = make_watch(tmp_path)
    write_json_once(files.layout.command, STOP.to_json())
    with pytest.raises(Stopped):
        watch.check()
    assert content(files.layout.ack)["result"] == "Done"


def test_a_revoked_stop_is_not_obeyed(tmp_path: Path) -> None:
    watch, files = make_watch(tmp_path)
    write_json_once(files.layout.command, STOP.to_json())
    write_json_once(files.layout.claim, {"by": "Monitor"})
    watch.check()


def test_during_training_the_trainer_has_the_grace(tmp_path: Path) -> None:
    clock = [0.0]
    watch, files = make_watch(tmp_path, clock)
    event_row(files.layout, 0, "AttemptStarted")
    step_row(files.layout, 1)
    write_json_once(files.layout.command, STOP.to_json())
    watch.check()
    clock[0] = 59.0
    watch.check()
    assert read_json(files.layout.claim) is None
    clock[0] = 61.0
    with pytest.raises(Stopped, match="grace"):
        watch.check()
    assert content(files.layout.ack)["step"] == 1


def test_sigterm_needs_no_command(tmp_path: Path) -> None:
    watch, files = make_watch(tmp_path)
    files.stop_request.touch()
    with pytest.raises(Stopped):
        watch.check()


def test_silence_is_a_hang(tmp_path: Path) -> None:
    watch, files = make_watch(tmp_path)
    old = time.time() - 700
    os.utime(files.layout.heartbeat, (old, old))
    watch.check()
    event_row(files.layout, 0, "AttemptStarted")
    with pytest.raises(HangError, match="training"):
        watch.check()


def test_last_step_of_a_resumed_attempt_without_rows(tmp_path: Path) -> None:
    files = AttemptFiles(started(JobLayout(tmp_path), 2))
    watch = Watch(attempt_config(tmp_path, attempt=2, resume=resume_from(1, 30)), files)
    assert watch.last_step() == 30
    step_row(files.layout, 31)
    assert watch.last_step() == 31
