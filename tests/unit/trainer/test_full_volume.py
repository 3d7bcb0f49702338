"""A volume that fills up during a save: a real small file system, mounted for the test (needs root)."""

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.trainer.builders import attempt_config, sealed_checkpoint, started, step_row

from ppojob_contract.durable import write_json
from ppojob_contract.layout import JobLayout
from ppojob_contract.mailbox import CheckpointRef
from ppojob_contract.outcomes import ExitClass, Outcome
from ppojob_trainer import sealing
from ppojob_trainer.attempt_files import AttemptFiles
from ppojob_trainer.classification import classify
from ppojob_trainer.monitor import deletion
from ppojob_trainer.monitor.job import Identity, Job

VOLUME_BYTES = 1 << 20
SHARD_BYTES = 200 * 1024

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "volume"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={VOLUME_BYTES}", "ppojob-test", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def the_job(volume: Path) -> Job:
    locks = (volume.parent / "driver.lock", volume.parent / "runner.lock")
    identity = Identity(
        namespace="research", name="sums", uid="job-uid", pod_uid="pod-uid", root=volume / "job", lock_files=locks
    )
    return Job(identity)


def save(layout: JobLayout, step: int) -> None:
    """As the trainer does: the shards, then the seal."""
    folder = layout.attempt(1).checkpoint(step)
    (folder / "actor").mkdir(parents=True)
    (folder / "actor" / "model.pt").write_bytes(os.urandom(SHARD_BYTES))
    values = {"attempt": 1, "step": step, "world_size": 1}
    sealing.seal(folder, **values, figures={}, state={}, settings={})  # type: ignore[arg-type]


def save_until_full(layout: JobLayout) -> tuple[list[int], OSError]:
    """Steps whose checkpoints are whole, and what ended it."""
    whole: list[int] = []
    while True:
        step = 5 * len(whole) + 5
        try:
            save(layout, step)
            step_row(layout.attempt(1), step)
        except OSError as error:
            return whole, error
        whole.append(step)


def test_a_save_that_fails_leaves_all_the_others_and_a_way_on(volume: Path) -> None:
    layout = JobLayout(volume / "job")
    files = AttemptFiles(layout.attempt(1))
    assert files.begin({})
    files.reserve()
    write_json(files.layout.config, attempt_config(layout.root).to_json())
    whole, error = save_until_full(layout)
    failed = whole[-1] + 5
    assert error.errno == errno.ENOSPC
    exit_class, message = classify(error)
    assert exit_class is ExitClass.STORAGE_ERROR
    with pytest.raises(OSError, match="No space left"):
        (volume / "filler").write_bytes(b"x" * VOLUME_BYTES)
    files.finish(Outcome(exit_class=exit_class, message=message, step=whole[-1]))

    job = the_job(volume)
    state = job.state()
    assert [(item.ref.step, item.complete) for item in state.checkpoints] == [
        *((step, True) for step in whole),
        (failed, False),
    ]
    found = state.attempt(1)
    assert found is not None
    assert found.outcome is not None
    assert "No space left" in found.outcome.message
    assert state.free_bytes is not None
    assert state.free_bytes < SHARD_BYTES

    answer = deletion.delete(job, [CheckpointRef(attempt=1, step=step) for step in (failed, whole[0])])
    deletion.clear_away(layout)
    assert answer.refused == ()
    assert layout.attempt(1).saved_steps() == whole[1:]
    later = job.state().free_bytes
    assert later is not None
    assert later > SHARD_BYTES
    assert AttemptFiles(layout.attempt(2)).begin({}), "the next attempt finds room"
    save(layout, failed)
    assert job.state().checkpoints[-1].complete


def test_the_outcome_has_room_on_a_volume_that_is_quite_full(volume: Path) -> None:
    layout = JobLayout(volume / "job")
    files = AttemptFiles(layout.attempt(1))
    assert files.begin({})
    files.reserve()
    sealed_checkpoint(started(layout, 1), 1, 5)
    with pytest.raises(OSError, match="No space left"):
        (volume / "filler").write_bytes(b"x" * VOLUME_BYTES)
    with pytest.raises(OSError, match="No space left"):
        write_json(layout.confirmed, {"checkpoints": []})
    files.finish(Outcome(exit_class=ExitClass.STORAGE_ERROR, message="full", step=5))
    assert files.outcome() is not None
