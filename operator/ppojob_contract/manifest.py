"""`manifest.json`: written last, by rename, into a checkpoint; without it the checkpoint is no target."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any, Self

from ppojob_contract.data_plan import Batches
from ppojob_contract.numbers import number

NAME = "manifest.json"

TOMBSTONE = "deleted.json"
"""What the manifest of a checkpoint that is being deleted is renamed to: it has stopped being one at once."""

CHECKSUM_LIMIT_BYTES = 1 << 20
"""Files up to this size always carry a SHA-256; that of a large model's shards costs minutes at each save."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    size: int
    sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a whole checkpoint consists of and what it was saved with."""

    attempt: int
    step: int
    world_size: int
    files: Mapping[str, FileEntry]
    """By path relative to the checkpoint's folder."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """Of the step's journal row."""
    state: Mapping[str, float] = field(default_factory=dict)
    """Adaptive state that verl does not save, such as the KL coefficient."""
    settings: Mapping[str, float] = field(default_factory=dict)
    """Adjusted parameters in force when it was saved."""
    dataset_digest: str | None = None
    """SHA-256 of the data that the attempt was given, where known by then."""
    batches: Batches | None = None
    """Of the step's journal row: where in the data's order the iterator in `data.pt` stands."""

    @property
    def size_bytes(self) -> int:
        return sum(entry.size for entry in self.files.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "attempt": self.attempt,
            "step": self.step,
            "worldSize": self.world_size,
            "files": {
                path: {"size": entry.size} | ({"sha256": entry.sha256} if entry.sha256 else {})
                for path, entry in self.files.items()
            },
            "figures": dict(self.figures),
            "state": dict(self.state),
            "settings": dict(self.settings),
            "datasetDigest": self.dataset_digest,
            "batches": self.batches.to_json() if self.batches else None,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError for what is not a manifest."""

        def numbers(values: dict[str, Any]) -> dict[str, float]:
            return {key: parsed for key, item in values.items() if (parsed := number(item)) is not None}

        batches = value.get("batches")
        return cls(
            attempt=int(value["attempt"]),
            step=int(value["step"]),
            world_size=int(value["worldSize"]),
            files={
                path: FileEntry(size=int(entry["size"]), sha256=entry.get("sha256"))
                for path, entry in value["files"].items()
            },
            figures=numbers(value.get("figures", {})),
            state=numbers(value.get("state", {})),
            settings=numbers(value.get("settings", {})),
            dataset_digest=value.get("datasetDigest"),
            batches=Batches.from_json(batches) if batches else None,
        )


class Compare(Enum):
    """What of a checkpoint is compared with its manifest: sizes always, and checksums of which files."""

    SIZES = auto()
    SMALL_FILES = auto()
    ALL_FILES = auto()


def scan(folder: Path, *, checksums: bool = False) -> dict[str, FileEntry]:
    """Every file of a checkpoint but the manifest itself; with `checksums` large ones carry theirs too."""
    entries = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder).as_posix()
        if path.is_file() and relative not in {NAME, TOMBSTONE} and not path.name.endswith(".tmp"):
            size = path.stat().st_size
            hashed = checksums or size <= CHECKSUM_LIMIT_BYTES
            entries[relative] = FileEntry(size=size, sha256=sha256(path) if hashed else None)
    return entries


def problems(folder: Path, manifest: Manifest, compare: Compare = Compare.ALL_FILES) -> list[str]:
    """What differs from the manifest, a line each; empty for a checkpoint that can be loaded."""
    largest = {Compare.SIZES: -1, Compare.SMALL_FILES: CHECKSUM_LIMIT_BYTES, Compare.ALL_FILES: None}[compare]
    found = []
    for relative, entry in manifest.files.items():
        path = folder / relative
        if not path.is_file():
            found.append(f"{relative} is missing")
        elif (size := path.stat().st_size) != entry.size:
            found.append(f"{relative} has {size} bytes instead of {entry.size}")
        elif entry.sha256 and (largest is None or size <= largest) and sha256(path) != entry.sha256:
            found.append(f"{relative} has another content than when it was saved")
    return found


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
