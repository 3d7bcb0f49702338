"""Files of a reward model's training in the stage's `work` folder, shared by the driver and its processes."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RewardFiles:
    """Below the stage's `work`; `output` is where this run makes its output."""

    work: Path
    output: Path

    @property
    def checkpoints(self) -> Path:
        return self.work / "checkpoints"

    @property
    def progress(self) -> Path:
        """Newest figures, written by the first process after every step."""
        return self.work / "progress.json"

    @property
    def stop(self) -> Path:
        """The driver asks the processes to save and end."""
        return self.work / "stop"

    @property
    def model(self) -> Path:
        return self.output / "model"

    def tokens(self, split: str) -> Path:
        return self.work / f"{split}-tokens.parquet"

    def counts(self, split: str) -> Path:
        return self.work / f"{split}-counts.json"
