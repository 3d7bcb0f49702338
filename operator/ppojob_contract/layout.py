"""Where a job's files are on its claim. Nothing is ever moved; each attempt has its own folder."""

import re
from dataclasses import dataclass
from pathlib import Path

_ATTEMPT = re.compile(r"\d{4,}")
_CHECKPOINT = re.compile(r"global_step_(\d+)")


def job_folder(namespace: str, name: str, uid: str) -> str:
    """Relative to `storage.path`: the UID keeps a re-created job of the same name apart."""
    return f"{namespace}/{name}-{uid[:8]}"


@dataclass(frozen=True, slots=True)
class AttemptLayout:
    """Files of one attempt."""

    folder: Path

    @property
    def config(self) -> Path:
        """Absolute, effective configuration, as run."""
        return self.folder / "config.json"

    @property
    def started(self) -> Path:
        """Created once (O_EXCL): an attempt never starts twice, although Ray may re-submit its job."""
        return self.folder / "started"

    @property
    def journal(self) -> Path:
        return self.folder / "journal.jsonl"

    @property
    def heartbeat(self) -> Path:
        """Touched at each phase of a step and of the start-up; its age is what a hang is judged by."""
        return self.folder / "heartbeat"

    @property
    def command(self) -> Path:
        """One-slot mailbox, written once by the monitor."""
        return self.folder / "command.json"

    @property
    def claim(self) -> Path:
        """Created once, by the trainer (it executes the command) or by the monitor (the operator revokes it)."""
        return self.folder / "claim"

    @property
    def ack(self) -> Path:
        return self.folder / "ack.json"

    @property
    def outcome(self) -> Path:
        return self.folder / "outcome.json"

    @property
    def dataset(self) -> Path:
        """Checksums of the data that it was given, once that has been read."""
        return self.folder / "dataset.json"

    @property
    def samples(self) -> Path:
        """`train/` and `validation/`, a file a step."""
        return self.folder / "samples"

    @property
    def incident(self) -> Path:
        """Samples of the steps that led to a rollback; an attempt ends by one rollback at most."""
        return self.folder / "incident"

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    def checkpoint(self, step: int) -> Path:
        return self.checkpoints / f"global_step_{step}"

    def saved_steps(self) -> list[int]:
        """Steps that have a checkpoint folder, whole or not, ascending."""
        if not self.checkpoints.is_dir():
            return []
        matches = (_CHECKPOINT.fullmatch(entry.name) for entry in self.checkpoints.iterdir())
        return sorted(int(match[1]) for match in matches if match)


@dataclass(frozen=True, slots=True)
class JobLayout:
    """Files of one job."""

    root: Path

    @property
    def confirmed(self) -> Path:
        """Which checkpoints are confirmed, oldest first; written through the monitor only."""
        return self.root / "confirmed.json"

    def attempt(self, number: int) -> AttemptLayout:
        return AttemptLayout(self.root / "attempts" / f"{number:04d}")

    def locate(self, checkpoint: Path) -> tuple[int, int] | None:
        """Attempt and step of a checkpoint's folder; None where it is not one of this job's."""
        attempt, step = _ATTEMPT.fullmatch(checkpoint.parent.parent.name), _CHECKPOINT.fullmatch(checkpoint.name)
        if attempt is None or step is None:
            return None
        found = int(attempt[0]), int(step[1])
        return found if self.attempt(found[0]).checkpoint(found[1]) == checkpoint else None

    def attempts(self) -> list[int]:
        folder = self.root / "attempts"
        if not folder.is_dir():
            return []
        return sorted(int(entry.name) for entry in folder.iterdir() if _ATTEMPT.fullmatch(entry.name))
