"""Files of samples: which stay, and what is kept of a rollback."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.trainer.builders import attempt_config, content, resume_from

from ppojob_contract.attempt import AttemptConfig, SampleSettings
from ppojob_contract.data_plan import DataPlan, StepRange
from ppojob_contract.layout import JobLayout
from ppojob_trainer import incident, samples
from ppojob_trainer.samples import TRAIN, VALIDATION, WINDOW_BYTES, WINDOW_STEPS, SampleFiles, unwanted

SETTINGS = SampleSettings(every_steps=10, keep_last=3)


def remaining(last: int, settings: SampleSettings = SETTINGS, kind: str = TRAIN, size: int = 100) -> list[int]:
    """What is there after so many steps, each written when it came."""
    sizes: dict[int, int] = {}
    for step in range(1, last + 1):
        sizes[step] = size
        for old in unwanted(sizes, settings, kind):
            del sizes[old]
    return sorted(sizes)


def test_the_newest_steps_stay_and_of_the_others_every_tenth() -> None:
    assert remaining(200) == [*range(151, 201)]
    assert remaining(200, SampleSettings(every_steps=10, keep_last=8)) == [130, 140, 150, *range(151, 201)]
    assert remaining(7) == [*range(1, 8)]


def test_large_steps_leave_a_shorter_window_but_never_none() -> None:
    assert remaining(200, SampleSettings(every_steps=1000), size=WINDOW_BYTES // 4) == [197, 198, 199, 200]
    assert remaining(200, SampleSettings(every_steps=1000), size=2 * WINDOW_BYTES) == [200]


def test_of_validations_the_last_stay() -> None:
    assert remaining(9, kind=VALIDATION) == [7, 8, 9]
    assert remaining(9, SampleSettings(keep_last=0), kind=VALIDATION) == []


@given(st.text())
def test_a_sample_is_a_line_whatever_was_written(text: str) -> None:
    line = samples.in_one_line({"response": text})
    assert line.splitlines() == [line]
    assert json.loads(line) == {"response": text}


@given(last=st.integers(1, 150), every=st.integers(1, 30), keep=st.integers(0, 20), size=st.integers(1, WINDOW_BYTES))
def test_no_more_than_is_asked_for_stays(last: int, every: int, keep: int, size: int) -> None:
    left = remaining(last, SampleSettings(every_steps=every, keep_last=keep), size=size)
    periodic = [step for step in left if step <= last - WINDOW_STEPS]
    assert len(left) <= WINDOW_STEPS + keep
    assert all(step % every == 0 for step in periodic)
    assert left[-1] == last


def lines(*texts: str) -> Any:
    return lambda: [{"response": text, "reward": float("nan")} for text in texts]


def test_files_appear_whole_and_go_with_their_time(tmp_path: Path) -> None:
    layout = JobLayout(tmp_path).attempt(1)
    files = SampleFiles(layout, SampleSettings(every_steps=100, keep_last=1))
    for step in range(1, WINDOW_STEPS + 3):
        files.write(TRAIN, step, lines("é", "zwei\n"))
    files.flush()
    folder = layout.samples / TRAIN
    assert sorted(folder.iterdir()) == sorted(folder / samples.name(step) for step in range(3, WINDOW_STEPS + 3))
    read = [json.loads(line) for line in (folder / samples.name(5)).read_text().splitlines()]
    assert read == [{"response": "é", "reward": "NaN"}, {"response": "zwei\n", "reward": "NaN"}]


def test_validations_leave_no_file_where_none_is_wanted(tmp_path: Path) -> None:
    layout = JobLayout(tmp_path).attempt(1)
    files = SampleFiles(layout, SampleSettings(validation=False))
    files.write(VALIDATION, 1, lines("a"))
    files.flush()
    assert not layout.samples.exists()


def test_a_file_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    layout = JobLayout(tmp_path).attempt(1)
    layout.folder.mkdir(parents=True)
    layout.samples.write_text("in the way")
    files = SampleFiles(layout, SETTINGS)
    files.write(TRAIN, 1, lines("a"))
    files.flush()
    layout.samples.unlink()
    files.write(TRAIN, 2, lines("a"))
    files.flush()
    assert (layout.samples / TRAIN / samples.name(2)).exists()


def rolled_back(root: Path) -> AttemptConfig:
    """Attempt 2 broke at its first steps; attempt 3 follows."""
    steps = (StepRange(attempt=1, first=10, last=10), StepRange(attempt=2, first=11, last=13))
    return attempt_config(root, attempt=3, resume=resume_from(1, 5), data=DataPlan(skip=steps, incident=steps))


def write(root: Path, attempt: int, *steps: int) -> None:
    folder = JobLayout(root).attempt(attempt).samples / TRAIN
    folder.mkdir(parents=True)
    for step in steps:
        (folder / samples.name(step)).write_text(f"{attempt}/{step}")


@pytest.mark.parametrize("hard_links", [True, False])
def test_an_incident_keeps_the_samples_of_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hard_links: bool
) -> None:
    def no_link(*_: Any) -> None:
        raise PermissionError("no hard links here")

    if not hard_links:
        monkeypatch.setattr(os, "link", no_link)
    write(tmp_path, 1, 9, 10, 11)
    write(tmp_path, 2, 11, 13, 14)
    incident.keep(rolled_back(tmp_path))
    folder = JobLayout(tmp_path).attempt(2).incident
    kept = {path.name: path.read_text() for path in folder.glob("*.jsonl")}
    assert kept == {samples.name(10): "1/10", samples.name(11): "2/11", samples.name(13): "2/13"}
    report = content(folder / incident.REPORT)
    assert (report["attempt"], report["nextAttempt"], report["missingSamples"]) == (2, 3, [12])
    assert report["target"] == {"attempt": 1, "step": 5}
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_an_incident_is_kept_once(tmp_path: Path) -> None:
    write(tmp_path, 1, 10)
    incident.keep(rolled_back(tmp_path))
    report = JobLayout(tmp_path).attempt(2).incident / incident.REPORT
    before = report.read_bytes()
    incident.keep(rolled_back(tmp_path))
    assert report.read_bytes() == before


def test_no_rollback_no_incident(tmp_path: Path) -> None:
    incident.keep(attempt_config(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_full_volume_stops_nothing(tmp_path: Path) -> None:
    folder = JobLayout(tmp_path).attempt(2).folder
    folder.mkdir(parents=True)
    (folder / "incident").write_text("in the way")
    incident.keep(rolled_back(tmp_path))
