# mypy: disable-error-code="import, misc, no-untyped-call, untyped-decorator, attr-defined, union-attr, arg-type"
"""The Ray actor on the head node in which verl's loop runs."""

import os
from pathlib import Path
from typing import Any

from verl.trainer.main_ppo import TaskRunnerV1

from ppojob_contract import names
from ppojob_trainer import locks
from ppojob_trainer.errors import CommunicationError

LOCK_WAIT_SECONDS = 60
"""For the runner of a killed entry to go: Ray ends a dead driver's actors within seconds."""


_VerlTaskRunner: Any = TaskRunnerV1.__ray_actor_class__
"""The class inside what `@ray.remote` made of it."""


class JobRunner(_VerlTaskRunner):
    """verl's task runner, which holds the runner lock for its life and says how training ended."""

    def __init__(self, attempt: str) -> None:
        super().__init__()
        self.lock = locks.acquire(Path(names.RUNNER_LOCK), LOCK_WAIT_SECONDS)
        if self.lock is None:
            raise CommunicationError("another task runner of this pod is still alive")
        os.environ[names.ENV_ATTEMPT] = attempt

    def run(self, config: Any) -> dict[str, Any]:
        """`stopped` and the last finished `step`."""
        import ppojob_trainer.trainer  # noqa: F401, PLC0415 - registers the trainer in this process alone

        super().run(config)
        ending: dict[str, Any] = self.trainer.ending
        return ending
