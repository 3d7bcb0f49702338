from pathlib import Path

import pytest

from ppojob_contract import manifest as manifests
from ppojob_contract.manifest import CHECKSUM_LIMIT_BYTES, Compare, Manifest

LARGE, SMALL = "actor/model.pt", "data.pt"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "actor").mkdir()
    (tmp_path / LARGE).write_bytes(b"w" * (CHECKSUM_LIMIT_BYTES + 1))
    (tmp_path / SMALL).write_bytes(b"i" * CHECKSUM_LIMIT_BYTES)
    return tmp_path


def sealed(folder: Path, *, checksums: bool) -> Manifest:
    files = manifests.scan(folder, checksums=checksums)
    manifest = Manifest(attempt=1, step=5, world_size=1, files=files)
    assert Manifest.from_json(manifest.to_json()) == manifest
    return manifest


def overwrite(path: Path) -> None:
    """As many bytes as before."""
    path.write_bytes(b"x" * path.stat().st_size)


@pytest.mark.parametrize(
    ("asked", "compare", "damaged", "seen"),
    [
        (False, Compare.ALL_FILES, SMALL, True),
        (False, Compare.SMALL_FILES, SMALL, True),
        (False, Compare.SIZES, SMALL, False),
        (False, Compare.ALL_FILES, LARGE, False),
        (True, Compare.ALL_FILES, LARGE, True),
        (True, Compare.SMALL_FILES, LARGE, False),
        (True, Compare.SIZES, LARGE, False),
    ],
)
def test_which_change_of_content_is_seen(folder: Path, asked: bool, compare: Compare, damaged: str, seen: bool) -> None:
    manifest = sealed(folder, checksums=asked)
    assert manifests.problems(folder, manifest, compare) == []
    overwrite(folder / damaged)
    expected = [f"{damaged} has another content than when it was saved"] if seen else []
    assert manifests.problems(folder, manifest, compare) == expected


@pytest.mark.parametrize("compare", list(Compare))
def test_a_size_is_always_compared(folder: Path, compare: Compare) -> None:
    manifest = sealed(folder, checksums=False)
    (folder / LARGE).write_bytes(b"cut")
    assert manifests.problems(folder, manifest, compare) == [
        f"{LARGE} has 3 bytes instead of {CHECKSUM_LIMIT_BYTES + 1}"
    ]
