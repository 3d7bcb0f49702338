"""Stages beside training in a `World`: what their RayJobs do, and what they leave on the claim."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ppojob_contract.outcomes import ExitClass, Outcome
from ppojob_contract.stages import Stage, StageConfig, StageState


@dataclass(frozen=True)
class Doing:
    """What one run of a stage does."""

    seconds: int = 2
    ends: ExitClass | None = ExitClass.SUCCEEDED
    """None: its process is killed."""
    figures: Mapping[str, float] = field(default_factory=dict)
    message: str = "done"


StageScript = Callable[[Stage, int], Doing]


@dataclass
class StageRun:
    """A stage's program, and its folder."""

    config: StageConfig
    head_uid: str
    doing: Doing
    age: int = 0
    running: bool = True
    outcome: Outcome | None = None
    forgotten: bool = False
    """Its folder was deleted."""


@dataclass
class FakeStages:
    """All runs, in the order in which they began."""

    script: StageScript = lambda _stage, _run: Doing()
    runs: list[StageRun] = field(default_factory=list)
    complete: dict[tuple[Stage, str], Doing] = field(default_factory=dict)
    """Outputs that are there."""
    twice: list[StageConfig] = field(default_factory=list)
    """Work that was done although its output was there already."""

    def submit(self, text: str, head_uid: str) -> bool:
        """False where the run was started before."""
        config = StageConfig.from_json(json.loads(text))
        if any(item.config.stage is config.stage and item.config.run == config.run for item in self.runs):
            return False
        if (config.stage, config.key) in self.complete:
            self.twice.append(config)
        self.runs.append(StageRun(config, head_uid, self.script(config.stage, config.run)))
        return True

    def tick(self) -> None:
        for run in self.runs:
            if run.running:
                run.age += 1
                if run.age >= run.doing.seconds:
                    self._end(run)

    def _end(self, run: StageRun) -> None:
        run.running = False
        if run.doing.ends is None:
            return
        run.outcome = Outcome(exit_class=run.doing.ends, message=run.doing.message, step=0)
        if run.doing.ends is ExitClass.SUCCEEDED:
            self.complete[run.config.stage, run.config.key] = run.doing

    def lose(self, stage: Stage, *, folder: bool) -> None:
        """Its output is cut; or nothing is left of its folder."""
        for run in [item for item in self.runs if item.config.stage is stage]:
            self.complete.pop((stage, run.config.key), None)
            run.forgotten = folder

    def kill(self, **of: Any) -> None:
        """Ends the programs of a head pod (`head_uid`) or of a RayJob (`stage`, `run`)."""
        for item in self.runs:
            mine = item.head_uid == of["head_uid"] if "head_uid" in of else _is(item, of["stage"], of["run"])
            if mine:
                item.running = False

    def held(self, head_uid: str) -> bool:
        return any(item.running and item.head_uid == head_uid for item in self.runs)

    def ended(self, stage: Stage, run: int) -> str | None:
        """KubeRay's word for it once the program has ended."""
        found = next((item for item in self.runs if _is(item, stage, run)), None)
        if found is None or found.running:
            return None
        good = found.outcome is not None and found.outcome.exit_class is ExitClass.SUCCEEDED
        return "SUCCEEDED" if good else "FAILED"

    def states(self) -> tuple[StageState, ...]:
        newest = {(item.config.stage, item.config.key): item for item in self.runs if not item.forgotten}
        return tuple(self._state(item) for item in newest.values())

    def _state(self, item: StageRun) -> StageState:
        done = self.complete.get((item.config.stage, item.config.key))
        return StageState(
            stage=item.config.stage,
            key=item.config.key,
            run=item.config.run,
            last_heartbeat_age_seconds=0.0,
            outcome=item.outcome,
            complete=done is not None,
            message=done.message if done else "",
            figures=done.figures if done else item.doing.figures,
        )


def _is(item: StageRun, stage: Stage, run: int) -> bool:
    return item.config.stage is stage and item.config.run == run
