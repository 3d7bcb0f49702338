"""Deleting checkpoints over real files, killed between any two file operations."""

import os
import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from tests.unit.trainer.builders import attempt_config, checkpoint, resume_from, sealed_checkpoint, started

from ppojob_contract.durable import write_json, write_json_once
from ppojob_contract.layout import JobLayout
from ppojob_contract.mailbox import Ack, AckResult, CheckpointRef, Command, CommandKind
from ppojob_contract.manifest import TOMBSTONE
from ppojob_contract.outcomes import ExitClass, Outcome
from ppojob_contract.protocol import Deletion
from ppojob_trainer import locks
from ppojob_trainer.attempt_files import AttemptFiles
from ppojob_trainer.monitor import deletion
from ppojob_trainer.monitor.app import Monitor
from ppojob_trainer.monitor.job import Identity, Job


def ref(attempt: int, step: int) -> CheckpointRef:
    return CheckpointRef(attempt=attempt, step=step)


@pytest.fixture
def layout(tmp_path: Path) -> JobLayout:
    return JobLayout(tmp_path / "job")


def the_job(layout: JobLayout) -> Job:
    locks_folder = layout.root.parent
    return Job(
        Identity(
            namespace="research",
            name="sums",
            uid="job-uid",
            pod_uid="pod-uid",
            root=layout.root,
            lock_files=(locks_folder / "driver.lock", locks_folder / "runner.lock"),
        )
    )


def a_run(layout: JobLayout, steps: range, *, confirmed: tuple[int, ...] = (), resume: Any = None) -> None:
    """Attempt 1 with whole checkpoints; it runs."""
    attempt = started(layout, 1)
    write_json(attempt.config, attempt_config(layout.root, resume=resume).to_json())
    for step in steps:
        sealed_checkpoint(attempt, 1, step)
    write_json(layout.confirmed, {"checkpoints": [ref(1, step).to_json() for step in confirmed]})


def delete(layout: JobLayout, *wanted: CheckpointRef) -> Deletion:
    answer = deletion.delete(the_job(layout), wanted)
    deletion.clear_away(layout)
    return answer


def left(layout: JobLayout) -> list[tuple[int, int]]:
    """What a reader takes for whole checkpoints."""
    return [(item.ref.attempt, item.ref.step) for item in the_job(layout).state().checkpoints if item.complete]


def reasons(answer: Deletion) -> dict[tuple[int, int], str]:
    return {(item.ref.attempt, item.ref.step): item.reason for item in answer.refused}


def test_what_nobody_needs_goes(layout: JobLayout) -> None:
    a_run(layout, range(5, 30, 5), confirmed=(5, 10, 15))
    answer = delete(layout, ref(1, 5), ref(1, 20))
    assert answer == Deletion(deleted=(ref(1, 5), ref(1, 20)))
    assert left(layout) == [(1, 10), (1, 15), (1, 25)]
    assert layout.attempt(1).saved_steps() == [10, 15, 25]
    assert layout.attempt(1).journal.parent.exists()


def test_the_same_request_again_is_fine(layout: JobLayout) -> None:
    a_run(layout, range(5, 20, 5))
    assert delete(layout, ref(1, 5), ref(1, 5), ref(9, 5)) == delete(layout, ref(1, 5), ref(9, 5))


def test_what_a_run_needs_is_refused(layout: JobLayout) -> None:
    a_run(layout, range(5, 45, 5), confirmed=(5, 10, 15))
    ended, second = layout.attempt(1), started(layout, 2)
    AttemptFiles(ended).finish(Outcome(exit_class=ExitClass.STOPPED, message="m", step=40))
    write_json(second.config, attempt_config(layout.root, attempt=2, resume=resume_from(1, 25)).to_json())
    command = Command(id="c", kind=CommandKind.ROLLBACK, target=ref(1, 20), next_attempt=3)
    write_json_once(second.command, command.to_json())
    sealed_checkpoint(second, 2, 30)
    checkpoint(second, 2, 35)
    with locks.held(layout.root.parent / "driver.lock", 0.0):
        everything = [item.ref for item in the_job(layout).state().checkpoints]
        answer = delete(layout, *everything)
    assert {key: why.split(" ")[-1] for key, why in reasons(answer).items()} == {
        (1, 10): "checkpoints",
        (1, 15): "checkpoints",
        (1, 20): "it",
        (1, 25): "it",
        (2, 30): "checkpoint",
        (2, 35): "saved",
    }
    assert left(layout) == [(1, 10), (1, 15), (1, 20), (1, 25), (2, 30)]


def test_a_settled_command_holds_nothing(layout: JobLayout) -> None:
    a_run(layout, range(5, 20, 5))
    attempt = layout.attempt(1)
    command = Command(id="c", kind=CommandKind.ROLLBACK, target=ref(1, 5), next_attempt=2)
    write_json_once(attempt.command, command.to_json())
    assert (1, 5) in reasons(delete(layout, ref(1, 5)))
    ack = Ack(id="c", kind=CommandKind.ROLLBACK, result=AckResult.REFUSED, time=0.0)
    write_json_once(attempt.ack, ack.to_json())
    assert delete(layout, ref(1, 5)).deleted == (ref(1, 5),)


def test_nothing_goes_before_an_attempt_has_said_where_from(layout: JobLayout) -> None:
    a_run(layout, range(5, 20, 5))
    AttemptFiles(layout.attempt(1)).finish(Outcome(exit_class=ExitClass.STOPPED, message="m", step=15))
    second = started(layout, 2)
    assert (1, 5) in reasons(delete(layout, ref(1, 5)))
    write_json(second.config, attempt_config(layout.root, attempt=2, resume=resume_from(1, 15)).to_json())
    assert delete(layout, ref(1, 5)).deleted == (ref(1, 5),)


def test_only_whole_ones_count_among_the_newest_confirmed(layout: JobLayout) -> None:
    a_run(layout, range(5, 35, 5), confirmed=(5, 10, 15, 20))
    (layout.attempt(1).checkpoint(20) / "data.pt").unlink()
    assert set(reasons(delete(layout, ref(1, 5), ref(1, 10), ref(1, 15)))) == {(1, 10), (1, 15)}


def test_a_half_saved_one_goes_once_nobody_writes_it(layout: JobLayout) -> None:
    a_run(layout, range(5, 15, 5))
    checkpoint(layout.attempt(1), 1, 15)
    with locks.held(layout.root.parent / "runner.lock", 0.0):
        assert (1, 15) in reasons(delete(layout, ref(1, 15)))
    assert delete(layout, ref(1, 15)).deleted == (ref(1, 15),)
    assert layout.attempt(1).saved_steps() == [5, 10]


@pytest.mark.parametrize(
    "part", ["attempts/0001", "attempts/0001/checkpoints", "attempts/0001/checkpoints/global_step_5"]
)
def test_links_are_not_followed(layout: JobLayout, part: str) -> None:
    a_run(layout, range(5, 20, 5))
    (layout.attempt(1).checkpoint(5) / TOMBSTONE).touch()
    elsewhere, path = layout.root.parent / "elsewhere", layout.root / part
    shutil.move(path, elsewhere)
    path.symlink_to(elsewhere, target_is_directory=True)
    before = sorted(elsewhere.rglob("*"))
    assert "is a link" in reasons(delete(layout, ref(1, 5)))[1, 5]
    assert sorted(elsewhere.rglob("*")) == before


def test_a_link_inside_is_removed_without_what_it_leads_to(layout: JobLayout) -> None:
    a_run(layout, range(5, 20, 5))
    elsewhere = layout.root.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("kept")
    (layout.attempt(1).checkpoint(5) / "extra").symlink_to(elsewhere, target_is_directory=True)
    assert delete(layout, ref(1, 5)).deleted == (ref(1, 5),)
    assert not layout.attempt(1).checkpoint(5).exists()
    assert (elsewhere / "file").read_text() == "kept"


class Killed(BaseException):
    """The monitor's process ends here."""


OPERATIONS = 6
"""The manifest's rename, two files, two folders, the tombstone."""


class Killer:
    """Makes the n-th operation that changes a file the process's last, before it has an effect."""

    def __init__(self) -> None:
        self.countdown = 0

    def wrapped(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def maybe(*args: Any, **kwargs: Any) -> Any:
            self.countdown -= 1
            if self.countdown == 0:
                raise Killed
            return operation(*args, **kwargs)

        return maybe


@pytest.fixture
def killer(monkeypatch: pytest.MonkeyPatch) -> Killer:
    killer = Killer()
    for name in ("rename", "unlink", "rmdir"):
        monkeypatch.setattr(os, name, killer.wrapped(getattr(os, name)))
    return killer


@pytest.mark.parametrize("sealed", [True, False])
def test_a_kill_at_any_moment_is_made_good(tmp_path: Path, killer: Killer, sealed: bool) -> None:
    for number in count(1):
        layout = JobLayout(tmp_path / f"job-{number}")
        a_run(layout, range(10, 20, 5))
        if sealed:
            sealed_checkpoint(layout.attempt(1), 1, 5)
        else:
            checkpoint(layout.attempt(1), 1, 5)
        if not _is_killed(layout, killer, number):
            assert number == OPERATIONS + 1
            return
        found = {item.ref.step: item.complete for item in the_job(layout).state().checkpoints}
        assert (found.pop(10), found.pop(15)) == (True, True)
        untouched = number == 1
        assert found.get(5, False) is (sealed and untouched), "as it was, or no checkpoint: never a part of one"
        assert delete(layout, ref(1, 5)).deleted == (ref(1, 5),)
        assert layout.attempt(1).saved_steps() == [10, 15]


def _is_killed(layout: JobLayout, killer: Killer, number: int) -> bool:
    killer.countdown = number
    try:
        delete(layout, ref(1, 5))
    except Killed:
        return True
    finally:
        killer.countdown = 0
    return False


def test_a_full_volume_can_be_cleared(layout: JobLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    a_run(layout, range(5, 15, 5))
    checkpoint(layout.attempt(1), 1, 15)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "touch", full)
    assert deletion.delete(the_job(layout), [ref(1, 15)]).deleted == (ref(1, 15),)
    assert layout.attempt(1).saved_steps() == [5, 10]


def monitor(layout: JobLayout) -> Monitor:
    token = layout.root.parent / "token"
    token.write_text("secret\n")
    return Monitor(the_job(layout), token)


async def test_over_http(layout: JobLayout) -> None:
    a_run(layout, range(5, 20, 5))
    body = {"checkpoints": [ref(1, 5).to_json(), ref(1, 15).to_json()]}
    async with TestClient[Any, Any](TestServer(monitor(layout).app())) as client:
        assert (await client.post("/v1/delete", json=body)).status == 401
        authorized = {"Authorization": "Bearer secret"}
        assert (await client.post("/v1/delete", json={"checkpoints": [{}]}, headers=authorized)).status == 400
        response = await client.post("/v1/delete", json=body, headers=authorized)
        assert response.status == 200
        answer = Deletion.from_json(await response.json())
    assert (answer.deleted, list(reasons(answer))) == ((ref(1, 5),), [(1, 15)])
    assert left(layout) == [(1, 10), (1, 15)]


async def test_a_monitor_that_starts_ends_what_another_began(layout: JobLayout) -> None:
    a_run(layout, range(5, 20, 5))
    deletion.delete(the_job(layout), [ref(1, 5)])
    assert layout.attempt(1).checkpoint(5).exists()
    ready = monitor(layout)
    async with TestClient[Any, Any](TestServer(ready.app())):
        await ready.cleared()
    assert not layout.attempt(1).checkpoint(5).exists()
