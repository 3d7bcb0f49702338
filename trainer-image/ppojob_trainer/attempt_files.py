"""What the trainer's processes write beside the journal: start, life signs, end."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ppojob_contract import journal
from ppojob_contract.attempt import AttemptConfig
from ppojob_contract.durable import read_json, write_json
from ppojob_contract.journal import Row, RowKind
from ppojob_contract.layout import AttemptLayout
from ppojob_trainer.run_files import RunFiles


class AttemptFiles(RunFiles[AttemptLayout]):
    """The files of one attempt, from the trainer's side."""

    def __init__(self, layout: AttemptLayout, predecessor: "AttemptFiles | None" = None) -> None:
        super().__init__(layout)
        self._predecessor = predecessor
        """The attempt in whose driver this one was begun."""

    def stop_requested(self) -> bool:
        """Also while the driver was a predecessor's: who asked may not have seen yet that it is this attempt's."""
        before = self._predecessor
        return super().stop_requested() or (before is not None and before.stop_requested())

    @property
    def _findings(self) -> Path:
        return self.layout.folder / "preflight.json"

    def begun_training(self) -> bool:
        """The trainer has loaded everything and opened the journal: from here on it ends at step boundaries."""
        return self.layout.journal.exists()

    def event(self, step: int, event: str, message: str = "") -> None:
        """Adds an event row to the journal."""
        row = Row(kind=RowKind.EVENT, step=step, time=time.time(), event=event, message=message)
        journal.append(self.layout.journal, row)

    def keep_findings(self, findings: Sequence[str]) -> None:
        """What was found wrong with the rewards before the journal begins: an open journal says that training has."""
        write_json(self._findings, {"rewards": list(findings)})

    def findings(self) -> list[str]:
        return [str(line) for line in (read_json(self._findings) or {}).get("rewards", [])]

    def last_step(self, default: int) -> int:
        """Last step whose row is in the journal."""
        steps = [row.step for row, _ in journal.read(self.layout.journal) if row.kind is RowKind.STEP]
        return max(steps, default=default)

    def write_config(self, attempt: AttemptConfig, verl: dict[str, Any], platform: str) -> None:
        """What the attempt was told, and every key of verl's that is set."""
        write_json(self.layout.config, {**attempt.to_json(), "verl": verl, "platform": platform})
