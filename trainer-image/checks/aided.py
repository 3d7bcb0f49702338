"""`ppojob-train` with the task runner of `aided_runner.py`."""

import sys
from typing import Any

import ray

import ppojob_trainer.main
from ppojob_trainer import cluster

if __name__ == "__main__":
    connect, remote = cluster.connect, ray.remote

    def connect_aided(config: Any) -> None:
        """By now the environment is prepared and verl may be imported."""
        connect(config)
        from aided_runner import AidedRunner

        from ppojob_trainer.runner import JobRunner

        ray.remote = lambda *given, **rest: remote(*((AidedRunner,) if given == (JobRunner,) else given), **rest)

    cluster.connect = connect_aided
    sys.exit(ppojob_trainer.main.main())
