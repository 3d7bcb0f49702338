"""What is true of a world, worked out from its files alone and in another way than the operator does.

Knows one shape of guardrail: one condition `above` on `kl`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.support.world import World

from ppojob_contract.journal import RowKind
from ppojob_contract.mailbox import CheckpointRef
from ppojob_contract.outcomes import ExitClass
from ppojob_contract.protocol import StepRow


@dataclass(frozen=True)
class Rules:
    """What a spec asks for."""

    above: float
    for_steps: int
    after_step: int
    grace: int
    confirm_steps: int
    acts: bool
    """Whether its guardrail rolls back."""

    @classmethod
    def of(cls, spec: dict[str, Any]) -> "Rules":
        guard = spec["guardrails"][0]
        return cls(
            above=guard["conditions"][0]["above"],
            for_steps=guard["forSteps"],
            after_step=guard.get("afterStep", 0),
            grace=spec["rollback"].get("graceSteps", 3),
            confirm_steps=spec["checkpoints"]["confirmSteps"],
            acts=guard["action"] == "Rollback",
        )

    @property
    def window(self) -> int:
        return max(self.confirm_steps, self.for_steps if self.acts else 0)

    def bad(self, value: float) -> bool:
        return math.isnan(value) or value > self.above


def breach(world: World, number: int, rules: Rules) -> tuple[int, int] | None:
    """First bad and last counted step of the attempt's first breach that must be acted on."""
    attempt = world.attempts.get(number)
    if attempt is None or not rules.acts:
        return None
    resume = attempt.config.resume
    quiet_through = resume.checkpoint.step + rules.grace if resume else 0
    streak: list[int] = []
    for row in attempt.rows:
        if row.kind is not RowKind.STEP or "kl" not in row.values:
            continue
        value = row.values["kl"]
        streak = [*streak, row.step] if row.step > rules.after_step and rules.bad(value) else []
        if len(streak) >= rules.for_steps and (row.step > quiet_through or not math.isfinite(value)):
            return streak[0], row.step
    return None


def past(world: World, number: int) -> Iterator[tuple[int, int, float]]:
    """(attempt, first step, last step) of what led to that attempt's weights, newest first."""
    through = math.inf
    while True:
        attempt = world.attempts.get(number)
        if attempt is None:
            return
        resume = attempt.config.resume
        yield number, (resume.checkpoint.step if resume else 0) + 1, through
        if resume is None:
            return
        number, through = resume.checkpoint.attempt, resume.checkpoint.step


def in_past(world: World, number: int, ref: CheckpointRef) -> bool:
    return any(ref.attempt == item and first <= ref.step <= last for item, first, last in past(world, number))


def earned(world: World, number: int, ref: CheckpointRef, rules: Rules) -> str:
    """Why the checkpoint may not be called Confirmed while `number` runs; empty where it may."""
    problem = world.checkpoints.get(ref, None if ref in world.deleted else "missing")
    if problem is not None:
        return problem
    if not in_past(world, number, ref):
        return "not in the past of the attempt"
    rows = [row for item in past(world, number) for row in _rows(world, *item)]
    before = [row for row in rows if ref.step - rules.window < row.step <= ref.step]
    after = sorted((row for row in rows if row.step > ref.step), key=lambda row: row.step)
    if any(not _clean(row, rules) for row in before):
        return "not clean before"
    clean = 0
    for row in after:
        if _unclean(row, rules):
            return f"step {row.step} behind it was not clean"
        clean += _clean(row, rules)
        if clean == rules.window:
            return ""
    outcome = world.attempts[number].outcome
    if outcome is not None and outcome.exit_class is ExitClass.SUCCEEDED:
        return ""
    return f"{clean} of {rules.window} clean steps behind it"


def _rows(world: World, number: int, first: int, last: float) -> list[StepRow]:
    rows = world.attempts[number].rows
    return [row for row in rows if row.kind is RowKind.STEP and first <= row.step <= last]


def _unclean(row: StepRow, rules: Rules) -> bool:
    return not math.isfinite(row.values["gradNorm"]) or (
        rules.acts and "kl" in row.values and rules.bad(row.values["kl"])
    )


def _clean(row: StepRow, rules: Rules) -> bool:
    return not _unclean(row, rules) and (not rules.acts or "kl" in row.values)
