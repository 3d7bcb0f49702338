"""One `ppojob-stage` process and what it leaves, for the checks."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ppojob_contract import names
from ppojob_contract.durable import read_json
from ppojob_contract.outcomes import Outcome
from ppojob_contract.stages import Stage, StageConfig, StageLayout, StageResult

TOY = "/opt/ppojob/toy"
PATIENCE_SECONDS = 600


class StageRun:
    """A run of a stage of the job in `root`, begun."""

    def __init__(
        self,
        root: Path,
        number: int,
        stage: Stage,
        settings: Mapping[str, Any],
        *,
        devices: int = 1,
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        config = StageConfig(
            namespace="checks",
            name="toy",
            uid="0",
            root=str(root),
            stage=stage,
            run=number,
            key=hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16],
            settings=settings,
            devices_per_node=devices,
        )
        self.layout = StageLayout.of(root, stage, config.key)
        self.files = self.layout.run(number)
        self.log = root / f"{stage.value.lower()}-{number}.log"
        root.mkdir(parents=True, exist_ok=True)
        told = {names.ENV_STAGE: json.dumps(config.to_json())}
        command = [sys.executable, "-m", "ppojob_trainer.stages.runner"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=cwd, env={**os.environ, **(environment or {}), **told}
            )

    def kill(self) -> None:
        """As when a node goes: no word, no outcome."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        assert read_json(self.files.outcome) is None

    def ask_to_stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def figures(self) -> dict[str, float]:
        """The newest live ones."""
        return dict(read_json(self.files.figures) or {})

    def expect(self, exit_class: str) -> Outcome:
        self.process.wait(PATIENCE_SECONDS)
        value = read_json(self.files.outcome)
        assert value is not None, self.log
        outcome = Outcome.from_json(value)
        assert outcome.exit_class.value == exit_class, (outcome, self.log)
        return outcome

    def result(self) -> StageResult:
        """Of a run that ends well."""
        self.expect("Succeeded")
        return StageResult.from_json(read_json(self.layout.result) or {})
