"""Checkpoints that an attempt begins from, the job's own and others, by their files."""

from pathlib import Path

import pytest
from tests.unit.trainer.builders import attempt_config, sealed_checkpoint

from ppojob_contract.attempt import AttemptConfig, Resume
from ppojob_contract.layout import JobLayout
from ppojob_contract.mailbox import CheckpointRef
from ppojob_trainer import configuration, origin
from ppojob_trainer.errors import CheckpointError

KINDS = ("model", "optim", "extra_state")


@pytest.fixture
def verl(tmp_path: Path) -> Path:
    """As verl leaves it, of two ranks, with a critic."""
    folder = tmp_path / "old" / "global_step_12"
    for role in ("actor", "critic"):
        (folder / role).mkdir(parents=True)
        for kind in KINDS:
            for rank in (0, 1):
                (folder / role / f"{kind}_world_size_2_rank_{rank}.pt").write_bytes(b"shard")
    (folder / "data.pt").write_bytes(b"iterator")
    return folder


def attempt(root: Path, folder: Path, *, weights_only: bool = False) -> AttemptConfig:
    step = int(folder.name.rsplit("_", 1)[-1])
    resume = Resume(checkpoint=CheckpointRef(attempt=0, step=step), weights_only=weights_only, folder=str(folder))
    return attempt_config(root, resume=resume)


def test_plain_verl_output_is_adopted(tmp_path: Path, verl: Path) -> None:
    config = attempt(tmp_path, verl)
    manifest = origin.manifest_of(config)
    assert manifest is not None
    assert (manifest.step, manifest.world_size, len(manifest.files)) == (12, 2, 13)
    assert configuration.managed_values(config, "cpu")["trainer.resume_from_path"] == str(verl)
    assert not (verl / "manifest.json").exists(), "nothing is written into somebody else's folder"
    assert AttemptConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        ("actor/optim_world_size_2_rank_1.pt", r"actor lacks optim of ranks \[1\] of 2"),
        ("critic/model_world_size_2_rank_0.pt", r"critic lacks model of ranks \[0\] of 2"),
        ("data.pt", "data.pt is missing"),
    ],
)
def test_what_lacks_a_file_is_refused(tmp_path: Path, verl: Path, lost: str, told: str) -> None:
    (verl / lost).unlink()
    with pytest.raises(CheckpointError, match=told):
        origin.manifest_of(attempt(tmp_path, verl))


def test_an_empty_shard_is_none(tmp_path: Path, verl: Path) -> None:
    (verl / "actor" / "model_world_size_2_rank_1.pt").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"actor lacks model of ranks \[1\]"):
        origin.manifest_of(attempt(tmp_path, verl, weights_only=True))


def test_shards_of_two_runs_are_refused(tmp_path: Path, verl: Path) -> None:
    (verl / "actor" / "model_world_size_1_rank_0.pt").write_bytes(b"shard")
    with pytest.raises(CheckpointError, match=r"actor has shards of \[1, 2\] devices"):
        origin.manifest_of(attempt(tmp_path, verl))


def test_weights_alone_need_no_more(tmp_path: Path, verl: Path) -> None:
    (verl / "data.pt").unlink()
    for path in verl.rglob("optim_*"):
        path.unlink()
    assert origin.manifest_of(attempt(tmp_path, verl, weights_only=True)) is not None


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_no_checkpoint_at_all(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty" / "global_step_5").mkdir(parents=True)
    with pytest.raises(CheckpointError):
        origin.manifest_of(attempt(tmp_path, tmp_path / name / "global_step_5"))


def test_another_jobs_checkpoint_is_verified(tmp_path: Path) -> None:
    folder, manifest = sealed_checkpoint(JobLayout(tmp_path / "other").attempt(3), 3, 20)
    config = attempt(tmp_path / "job", folder)
    assert origin.manifest_of(config) == manifest
    (folder / "data.pt").write_bytes(b"cut")
    with pytest.raises(CheckpointError, match=r"data\.pt has 3 bytes"):
        origin.manifest_of(config)
