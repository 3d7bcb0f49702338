"""What the driver printed stays when its pod goes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ppojob_contract.layout import JobLayout
from ppojob_contract.outcomes import ExitClass, Outcome
from ppojob_trainer import driver_log
from ppojob_trainer.attempt_files import AttemptFiles

FAILED = Outcome(exit_class=ExitClass.DATA_ERROR, message="no such column", step=3)


@pytest.fixture
def files(tmp_path: Path) -> AttemptFiles:
    made = AttemptFiles(JobLayout(tmp_path).attempt(2))
    made.begin({})
    return made


@pytest.mark.parametrize("lines", [3, 100_000])
def test_the_end_is_kept_and_no_more(tmp_path: Path, lines: int) -> None:
    text = "".join(f"line {number}\n" for number in range(lines))
    (tmp_path / "printed").write_text(text)
    with (tmp_path / "printed").open("a") as file:
        assert driver_log.keep(tmp_path / "driver.log", file.fileno())
    kept = (tmp_path / "driver.log").read_text()
    assert text.endswith(kept)
    assert len(kept) == min(len(text), driver_log.KEPT_BYTES)


def test_no_secret_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "very-secret-value")
    (tmp_path / "printed").write_text("login with very-secret-value failed\n")
    with (tmp_path / "printed").open("a") as file:
        driver_log.keep(tmp_path / "driver.log", file.fileno())
    assert (tmp_path / "driver.log").read_text() == "login with *** failed\n"


def test_a_pipe_and_a_claim_that_takes_nothing_are_no_error(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    assert not driver_log.keep(tmp_path / "driver.log", writer)
    os.close(reader)
    os.close(writer)
    (tmp_path / "printed").write_text("text")
    with (tmp_path / "printed").open("a") as file:
        assert not driver_log.keep(tmp_path / "nowhere" / "driver.log", file.fileno())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["printed"]


def test_an_outcome_says_where_it_is(files: AttemptFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_log, "keep", lambda target: target == files.driver_log)
    assert files.with_log(FAILED).message == "no such column (more in attempts/0002/driver.log)"
    stopped = Outcome(exit_class=ExitClass.STOPPED, message="stopped", step=3)
    assert files.with_log(stopped) == stopped
    monkeypatch.setattr(driver_log, "keep", lambda _: False)
    assert files.with_log(FAILED) == FAILED


def test_a_process_whose_output_is_a_file_keeps_it(files: AttemptFiles, tmp_path: Path) -> None:
    """As Ray starts it: both streams in one file that is not its own."""
    program = "import sys; from pathlib import Path; from ppojob_trainer import driver_log\n"
    program += "print('Traceback of it', file=sys.stderr); driver_log.keep(Path(sys.argv[1]))"
    with (tmp_path / "job-driver.log").open("a") as log:
        subprocess.run([sys.executable, "-c", program, str(files.driver_log)], stdout=log, stderr=log, check=True)
    assert files.driver_log.read_text() == "Traceback of it\n"
