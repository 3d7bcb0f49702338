"""`ppojob-train` with the task runner of `aided_runner.py`."""

import sys
from types import SimpleNamespace
from typing import Any

import ppojob_trainer.main
from ppojob_trainer import cluster

if __name__ == "__main__":
    connect = cluster.connect

    def connect_aided(config: Any) -> None:
        """By now the environment is prepared and verl may be imported."""
        connect(config)
        from aided_runner import AidedRunner

        sys.modules["ppojob_trainer.runner"] = SimpleNamespace(JobRunner=AidedRunner)  # type: ignore[assignment]

    cluster.connect = connect_aided
    sys.exit(ppojob_trainer.main.main())
