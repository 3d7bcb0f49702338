import pickle
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.unit.trainer.builders import checkpoint, sealed_checkpoint

from ppojob_contract.layout import JobLayout
from ppojob_contract.manifest import CHECKSUM_LIMIT_BYTES
from ppojob_trainer import sealing
from ppojob_trainer.classification import unloadable
from ppojob_trainer.errors import CheckpointError, ConfigError, Stopped, StorageError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return sealed_checkpoint(JobLayout(tmp_path).attempt(1), 1, 5, state={"KLCoefficient": 0.1})[0]


def test_a_sealed_checkpoint_is_verified(folder: Path) -> None:
    manifest = sealing.verified(folder)
    assert (manifest.step, manifest.world_size, manifest.state) == (5, 1, {"KLCoefficient": 0.1})
    assert set(manifest.files) == {"actor/model.pt", "data.pt"}


def damage_cut(folder: Path) -> str:
    (folder / "actor" / "model.pt").write_bytes(b"weig")
    return "actor/model.pt has 4 bytes instead of 7"


def damage_content(folder: Path) -> str:
    (folder / "data.pt").write_bytes(b"iteratoR")
    return "data.pt has another content"


def damage_missing(folder: Path) -> str:
    (folder / "data.pt").unlink()
    return "data.pt is missing"


def damage_manifest(folder: Path) -> str:
    (folder / "manifest.json").write_text('{"attempt": 1')
    return "manifest.json cannot be read"


def damage_no_manifest(folder: Path) -> str:
    (folder / "manifest.json").unlink()
    return "manifest.json is missing"


@pytest.mark.parametrize(
    "damage",
    [damage_cut, damage_content, damage_missing, damage_manifest, damage_no_manifest],
    ids=lambda f: f.__name__,
)
def test_damage_is_named(folder: Path, damage) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(StorageError, match=damage(folder)):
        sealing.verified(folder)


@pytest.mark.parametrize("checksums", [True, False])
def test_a_changed_shard_is_noticed_before_it_is_loaded_where_asked(tmp_path: Path, checksums: bool) -> None:
    folder = checkpoint(JobLayout(tmp_path).attempt(1), 1, 5)
    shard = folder / "actor" / "model.pt"
    shard.write_bytes(b"w" * (CHECKSUM_LIMIT_BYTES + 1))
    values = {"attempt": 1, "step": 5, "world_size": 1}
    sealing.seal(folder, **values, figures={}, state={}, settings={}, checksums=checksums)  # type: ignore[arg-type]
    shard.write_bytes(b"W" * (CHECKSUM_LIMIT_BYTES + 1))
    with pytest.raises(CheckpointError, match=r"model.pt has another content") if checksums else nullcontext():
        sealing.verified(folder)


@pytest.mark.parametrize(
    "error", [RuntimeError("PytorchStreamReader failed reading zip archive"), KeyError("lr"), EOFError()]
)
def test_what_fails_while_loading_is_the_checkpoints_fault(folder: Path, error: Exception) -> None:
    with pytest.raises(CheckpointError, match=r"global_step_5: cannot be loaded") as caught, sealing.loading(folder):
        raise error
    assert unloadable(pickle.loads(pickle.dumps(caught.value))) == str(folder)  # noqa: S301 (as Ray hands it on)


@pytest.mark.parametrize(
    "error",
    [RuntimeError("CUDA out of memory"), RuntimeError("NCCL error in"), ConfigError("2 devices"), Stopped("asked to")],
)
def test_what_has_another_cause_is_not(folder: Path, error: Exception) -> None:
    with pytest.raises(type(error)) as caught, sealing.loading(folder):
        raise error
    assert unloadable(caught.value) is None


def test_only_the_jobs_own_checkpoints_are_located(tmp_path: Path) -> None:
    job = JobLayout(tmp_path / "job")
    assert job.locate(job.attempt(12).checkpoint(5)) == (12, 5)
    assert job.locate(JobLayout(tmp_path / "other").attempt(1).checkpoint(5)) is None
    assert job.locate(tmp_path / "job" / "export") is None


def test_an_unsealed_checkpoint_is_no_target(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"manifest\.json is missing"):
        sealing.verified(checkpoint(JobLayout(tmp_path).attempt(1), 1, 5))
