import time
from pathlib import Path
from typing import Any

import pytest
from tests.faults import matrix, report
from tests.faults.__main__ import FAULTS, ORDER
from tests.faults.moments import ACK, BEFORE, CLAIM, COMMAND, FIRST_STEP, KL_BOUND, OUTCOME, STARTED, Moment
from tests.faults.result import Result, measured, remember
from tests.unit.trainer.builders import sealed_checkpoint, started, step_row

from ppojob_contract.durable import write_json
from ppojob_contract.layout import JobLayout
from ppojob_contract.mailbox import CheckpointRef
from ppojob_trainer.succession import STARTED_AFTER


@pytest.fixture
def layout(tmp_path: Path) -> JobLayout:
    layout = JobLayout(tmp_path)
    started(layout, 1)
    step_row(layout.attempt(1), 1, {"kl": KL_BOUND})
    return layout


def attempt(number: int, **values: Any) -> dict[str, Any]:
    return {"number": number, "cause": "Rollback", "result": "RolledBack", **values}


def confirm(layout: JobLayout, *steps: int) -> None:
    refs = [CheckpointRef(attempt=1, step=step).to_json() for step in steps]
    write_json(layout.confirmed, {"checkpoints": refs})


def test_every_victim_at_every_moment_of_both_paths() -> None:
    assert len(ORDER) == len(set(ORDER))
    for path, moments in (
        ("hot", (COMMAND, CLAIM, ACK, FIRST_STEP)),
        ("cold", (COMMAND, OUTCOME, STARTED, FIRST_STEP)),
    ):
        killed = {(what, when) for at, what, when in ORDER if at == path}
        for victim in ("operator", "monitor", "KubeRay's operator", "driver (entry)", "head pod"):
            assert {(victim, moment.name) for moment in moments} <= killed


def test_faults_of_one_rollback_come_in_the_order_of_its_moments() -> None:
    order = [BEFORE, COMMAND, CLAIM, ACK, OUTCOME, STARTED, FIRST_STEP]
    for faults in (faults for rollbacks in FAULTS.values() for faults in rollbacks):
        places = [order.index(fault.moment) for fault in faults]
        assert places == sorted(set(places))


def touch(name: str, number: int = 1) -> Any:
    return lambda layout: (
        getattr(layout.attempt(number), name).parent.mkdir(exist_ok=True),
        getattr(layout.attempt(number), name).touch(),
    )


@pytest.mark.parametrize(
    ("moment", "come"),
    [
        (BEFORE, lambda layout: step_row(layout.attempt(1), 2, {"kl": KL_BOUND + 0.01})),
        (COMMAND, touch("command")),
        (CLAIM, touch("claim")),
        (ACK, touch("ack")),
        (OUTCOME, touch("outcome")),
        (STARTED, touch("started", 2)),
        (FIRST_STEP, lambda layout: step_row(layout.attempt(2), 2)),
    ],
    ids=lambda value: value.name if isinstance(value, Moment) else "",
)
def test_a_moment_is_there_when_its_file_is(layout: JobLayout, moment: Moment, come: Any) -> None:
    assert not moment.reached(layout.attempt(1), layout.attempt(2))
    come(layout)
    assert moment.reached(layout.attempt(1), layout.attempt(2))


def test_last_words_of_a_killed_driver_are_no_recovery(layout: JobLayout) -> None:
    """Attempt 2 was begun in place by the driver that was killed; attempt 3 by a new one."""
    struck = time.time() - 100
    first_step_after = matrix._first_step_after
    write_json(layout.attempt(2).started, {"time": struck + 1, STARTED_AFTER: 1})
    step_row(layout.attempt(2), 6)  # at 1006 s since the epoch
    assert first_step_after(layout, 1, 1007.0, new_driver_since=None) is None
    found = first_step_after(layout, 1, 1000.0, new_driver_since=None)
    assert found is not None
    assert (found[0], found[1].step) == (2, 6)
    assert first_step_after(layout, 1, 1000.0, new_driver_since=struck) is None
    write_json(layout.attempt(3).started, {"time": struck + 2})
    step_row(layout.attempt(3), 7)
    found = first_step_after(layout, 1, 1000.0, new_driver_since=struck)
    assert found is not None
    assert found[0] == 3
    assert first_step_after(layout, 1, 1000.0, new_driver_since=struck + 3) is None


def test_what_is_lost(layout: JobLayout) -> None:
    folders = [sealed_checkpoint(layout.attempt(1), 1, step)[0] for step in (5, 10, 15)]
    confirm(layout, 5, 10, 15)
    trusted = matrix.confirmed(layout)
    assert list(matrix.missing(layout, trusted)) == []
    (folders[0] / "data.pt").unlink()
    confirm(layout, 5, 15)
    assert list(matrix.missing(layout, trusted)) == ["1/5: data.pt is missing", "1/10: not confirmed any more"]


@pytest.mark.parametrize(
    ("attempts", "said"),
    [
        ([attempt(2, carriedBy=1)], "rolled back in place"),
        ([attempt(2)], "rolled back by a new start"),
        ([attempt(2, result="Superseded"), attempt(3)], "begun in place and given up, rolled back by a new start"),
        (
            [attempt(2, carriedBy=1, result="HeadLost"), attempt(3, cause="Restart")],
            "rolled back in place, new start after HeadLost",
        ),
    ],
)
def test_what_happened(attempts: list[dict[str, Any]], said: str) -> None:
    *ended, current = [attempt(1), *attempts]
    status = {"attempts": ended, "attempt": {**current, "result": None}}
    assert matrix.happened(status, 1) == said
    status["attempts"] = [*ended, current]
    status["attempt"] = attempt(9)
    assert matrix.happened(status, 1, current["number"]) == said


def wrong(layout: JobLayout, *attempts: dict[str, Any], rollbacks: int) -> list[str]:
    *ended, current = attempts
    before = {"rollbacks": 0, "attempt": {"number": 1}}
    after = {"rollbacks": rollbacks, "attempts": ended, "attempt": {**current, "result": None}}
    return list(matrix._wrong(layout, before, after))


def test_what_is_wrong(layout: JobLayout) -> None:
    resume = {"attempt": 1, "step": 5}
    going = attempt(2, resume=resume)
    untrusted = [f"attempt 2 trained on from {resume}, which is not confirmed and whole"]
    assert wrong(layout, attempt(1), going, rollbacks=1) == []  # it found that it could not load it
    step_row(layout.attempt(2), 6)
    assert wrong(layout, attempt(1), going, rollbacks=1) == untrusted
    folder, _ = sealed_checkpoint(layout.attempt(1), 1, 5)
    confirm(layout, 5)
    assert wrong(layout, attempt(1), going, rollbacks=1) == []
    assert wrong(layout, attempt(1), going, rollbacks=2) == ["2 rollbacks of 1 attempts"]
    assert wrong(layout, attempt(1, result="HeadLost"), going, rollbacks=0) == ["0 rollbacks of 0 attempts"]
    assert wrong(layout, attempt(1), going, going, rollbacks=2) == ["attempt numbers [1, 2, 2]"]
    (folder / "data.pt").unlink()
    assert wrong(layout, attempt(1), going, rollbacks=1) == untrusted


def test_rows_of_an_earlier_attempt_after_those_of_a_later_one(layout: JobLayout) -> None:
    step_row(layout.attempt(2), 3)
    step_row(layout.attempt(1), 2)
    assert list(matrix._overlaps(layout)) == []
    step_row(layout.attempt(1), 9)
    assert list(matrix._overlaps(layout)) == ["attempts 1 and 2 overlap"]


def test_a_line_that_is_measured_again_replaces_the_first(tmp_path: Path) -> None:
    path = tmp_path / "build" / "faults.json"
    remember(Result("hot", "operator", "acknowledged", wrong=("bad",)), path)
    remember(Result("cold", "operator", "acknowledged", lost=("1/5: gone",)), path)
    remember(Result("hot", "operator", "acknowledged", seconds=3.0), path)
    assert {item.path: (item.good, item.seconds) for item in measured(path)} == {
        "cold": (False, 0.0),
        "hot": (True, 3.0),
    }


def test_the_page_says_what_is_not_measured_and_what_is_lost() -> None:
    results = [Result("hot", "head pod", "acknowledged"), Result("hot", "monitor", "acknowledged", lost=("1/5: gone",))]
    assert "2 of 54 faults were measured. Confirmed checkpoints lost: 1." in report.page(results, 54)
