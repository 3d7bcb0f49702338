# mypy: disable-error-code="import, misc, no-untyped-call, untyped-decorator, attr-defined, union-attr, arg-type"
"""The task runner under the entry's watch: stop requests during start-up, deadlines, death."""

from collections.abc import Callable
from typing import Any

import ray

from ppojob_trainer.watch import Watch

POLL_SECONDS = 0.5


class SupervisedRunner:
    """Stands in for the actor class that verl's `run_ppo` starts, creates it when asked, and waits for it watchfully.

    run_ppo says `handle = cls.remote()` and `ray.get(handle.run.remote(config))`; here the second call returns when
    the run is over.
    """

    def __init__(self, create: Callable[[], Any], watch: Watch) -> None:
        self._create = create
        self._watch = watch
        self._actor: Any = None
        self.ending: dict[str, Any] | None = None

    def remote(self) -> "SupervisedRunner":
        self._actor = self._create()
        return self

    def options(self, **_: Any) -> "SupervisedRunner":
        """Verl sets a profiler's options here, which the head node's runner does not need."""
        return self

    @property
    def run(self) -> "_Run":
        return _Run(self._wait)

    def _wait(self, config: Any) -> Any:
        reference = self._actor.run.remote(config)
        while not ray.wait([reference], timeout=POLL_SECONDS)[0]:
            self._watch.check()
        self.ending = ray.get(reference)
        return reference

    def kill(self) -> None:
        """Ends the task runner, and with it all actors that it owns. Nothing of the attempt is written afterwards."""
        if self._actor is not None:
            ray.kill(self._actor)


class _Run:
    def __init__(self, wait: Callable[[Any], Any]) -> None:
        self.remote = wait
