"""Checkpoints as they are on disk, cheaply: sizes each time, checksums of small files once for each manifest.

Those of large files would keep the monitor from answering for minutes: the trainer compares them before it loads.
"""

from pathlib import Path

from ppojob_contract import manifest as manifests
from ppojob_contract.durable import read_json
from ppojob_contract.layout import JobLayout
from ppojob_contract.mailbox import CheckpointRef
from ppojob_contract.manifest import Compare, Manifest
from ppojob_contract.protocol import CheckpointState

NO_MANIFEST = "no manifest yet"


class CheckpointScanner:
    """Remembers which manifests have been verified, by path and modification time."""

    def __init__(self) -> None:
        self._verified: dict[Path, tuple[int, Manifest, list[str]]] = {}

    def scan(self, job: JobLayout, alive_attempt: int | None) -> tuple[CheckpointState, ...]:
        """All checkpoint folders of the job, by attempt and step; `alive_attempt` is the one that may be saving.

        Without those that are being deleted.
        """
        return tuple(
            self._state(job.attempt(attempt).checkpoint(step), CheckpointRef(attempt=attempt, step=step), alive_attempt)
            for attempt in job.attempts()
            for step in job.attempt(attempt).saved_steps()
            if not (job.attempt(attempt).checkpoint(step) / manifests.TOMBSTONE).exists()
        )

    def _state(self, folder: Path, ref: CheckpointRef, alive_attempt: int | None) -> CheckpointState:
        try:
            manifest, problem = self._verify(folder)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            manifest, problem = None, f"{manifests.NAME} cannot be read: {error}"
        return CheckpointState(
            ref=ref,
            problem=problem,
            saving=problem == NO_MANIFEST and ref.attempt == alive_attempt,
            size_bytes=manifest.size_bytes if manifest else _size(folder),
            world_size=manifest.world_size if manifest else None,
        )

    def _verify(self, folder: Path) -> tuple[Manifest | None, str | None]:
        path = folder / manifests.NAME
        try:
            changed = path.stat().st_mtime_ns
        except FileNotFoundError:
            self._verified.pop(path, None)
            return None, NO_MANIFEST
        known = self._verified.get(path)
        if known is None or known[0] != changed:
            manifest = Manifest.from_json(read_json(path) or {})
            known = (changed, manifest, manifests.problems(folder, manifest, Compare.SMALL_FILES))
            self._verified[path] = known
        _, manifest, found = known
        found = found or manifests.problems(folder, manifest, Compare.SIZES)
        return manifest, "; ".join(found[:5]) or None


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:  # a temporary file of a save under way
            continue
    return total
