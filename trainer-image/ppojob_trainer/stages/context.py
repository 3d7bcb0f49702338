"""What the program of a stage is given."""

import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ppojob_contract.durable import write_json
from ppojob_contract.stages import StageConfig, StageLayout, StageResult, StageRunLayout, figures_of
from ppojob_trainer.classification import one_line
from ppojob_trainer.errors import Stopped
from ppojob_trainer.redaction import redact
from ppojob_trainer.run_files import RunFiles
from ppojob_trainer.stages import outputs

LOOK_SECONDS = 1.0
"""Between two touches of the heartbeat and looks for a stop: a program may ask for each row."""


class StageContext:
    """One run of a stage, from its program's side."""

    def __init__(
        self, config: StageConfig, files: RunFiles[StageRunLayout], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.config = config
        self.files = files
        self.layout = StageLayout.of(Path(config.root), config.stage, config.key)
        self.result: StageResult | None = None
        """What was published."""
        self._monotonic = monotonic
        self._looked_at = float("-inf")

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.config.settings

    @property
    def work(self) -> Path:
        """Kept between the runs of the same settings, until the output is there."""
        return self.layout.work

    @property
    def output(self) -> Path:
        """Where the output is made: empty at the beginning of each run."""
        return outputs.draft(self.layout, self.config.run)

    def check(self) -> None:
        """To be called at every row or batch: shows life. Raises Stopped where the run is to end."""
        now = self._monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        self.beat()
        if self.files.stop_requested():
            raise Stopped("stopped on request; what is in work is used by the next run")

    def beat(self) -> None:
        """Shows life."""
        self.files.beat()

    def figures(self, values: Mapping[str, Any]) -> None:
        """The newest figures, whole, for the job's metrics and status; a file is written at each call."""
        write_json(self.files.layout.figures, figures_of(values))

    def publish(self, result: StageResult) -> None:
        """The last thing that a program does: `output` is there from now on."""
        self.beat()
        said = StageResult(message=one_line(redact(result.message)), figures=figures_of(result.figures))
        self.result = outputs.publish(self.layout, self.config.run, said)

    def catch_sigterm(self) -> None:
        """A stop is seen by `check`. To be called again after `ray.init`, which puts its own handler there."""

        def request_stop(*_: Any) -> None:
            self._looked_at = float("-inf")
            self.files.stop_request.touch()

        signal.signal(signal.SIGTERM, request_stop)
