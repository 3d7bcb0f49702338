"""When a checkpoint is trusted.

A row describes the weights that the step before it made, so checkpoint N is judged by the rows behind N. Confirmed
needs W clean rows behind it and the W rows up to it clean, W = max(confirmSteps, longest forSteps of a Rollback
guardrail): with less, a run that is bad from step 30 and found bad at 50 would confirm its checkpoint 40 at 45.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from ppojob_contract.journal import RowKind
from ppojob_contract.mailbox import CheckpointRef
from ppojob_contract.protocol import CheckpointState, StepRow
from ppojob_operator.api.v1alpha1.spec import Guardrail, GuardrailAction, PPOJobSpec
from ppojob_operator.api.v1alpha1.status import CheckpointPhase
from ppojob_operator.domain.guardrails import is_validation_metric, observations, violated
from ppojob_operator.domain.lineage import Segment, contains


class Cleanness(Enum):
    """What one step row says of the weights it describes."""

    CLEAN = auto()
    UNCLEAN = auto()
    UNKNOWN = auto()
    """A figure that a Rollback guardrail needs is absent: the row proves nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCheckpoint:
    """A checkpoint on the claim and what is thought of it."""

    ref: CheckpointRef
    phase: CheckpointPhase
    size_bytes: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What checkpoints are judged by."""

    lineage: Sequence[Segment]
    rows: Sequence[StepRow]
    """Of the lineage, up to the breach: what came after it proves nothing."""
    guards: Sequence[Guardrail]
    """Rollback guardrails that are not dry runs."""
    window: int
    bad: tuple[int, int] | None = None
    """Attempt and step of the first bad row of the breach that was found, if one was."""
    finished: bool = False
    """Training reached its last step: the rows still lacking behind a checkpoint are waived."""


def rollback_guardrails(spec: PPOJobSpec) -> tuple[Guardrail, ...]:
    """Guardrails that decide what is clean."""
    return tuple(item for item in spec.guardrails if item.action is GuardrailAction.ROLLBACK and not item.dry_run)


def window(spec: PPOJobSpec) -> int:
    """W, in steps."""
    return max([spec.checkpoints.confirm_steps, *(item.for_steps for item in rollback_guardrails(spec))])


def cleanness(row: StepRow, guards: Sequence[Guardrail]) -> Cleanness:
    """Judges a step row by the raw conditions: counts and `afterStep` do not matter here."""
    if not math.isfinite(row.values.get("gradNorm", 0.0)):
        return Cleanness.UNCLEAN
    unknown = False
    for guard in guards:
        condition = guard.conditions[0]
        if is_validation_metric(condition.metric):
            continue
        value = row.values.get(condition.metric)
        if value is None:
            unknown = True
        elif violated(condition, value):
            return Cleanness.UNCLEAN
    return Cleanness.UNKNOWN if unknown else Cleanness.CLEAN


def judge_checkpoint(
    state: CheckpointState, evidence: Evidence, confirmed: frozenset[CheckpointRef]
) -> JudgedCheckpoint:
    """Puts one checkpoint into its phase."""
    phase, message = _phase(state, evidence, confirmed)
    return JudgedCheckpoint(ref=state.ref, phase=phase, size_bytes=state.size_bytes, message=message)


def _phase(
    state: CheckpointState, evidence: Evidence, confirmed: frozenset[CheckpointRef]
) -> tuple[CheckpointPhase, str]:
    if state.saving:
        return CheckpointPhase.SAVING, ""
    if state.problem is not None:
        return CheckpointPhase.UNUSABLE, state.problem
    if not contains(evidence.lineage, state.ref.attempt, state.ref.step):
        return CheckpointPhase.ABANDONED, "the run went back to an earlier step"
    if evidence.bad is not None and state.ref.attempt == evidence.bad[0] and state.ref.step >= evidence.bad[1] - 1:
        return CheckpointPhase.SUSPECT, f"the run was bad from step {evidence.bad[1]} on"
    if state.ref in confirmed:
        return CheckpointPhase.CONFIRMED, ""
    return _trust(state.ref.step, evidence)


def _trust(step: int, evidence: Evidence) -> tuple[CheckpointPhase, str]:
    step_rows = [row for row in evidence.rows if row.kind is RowKind.STEP]
    before = [row for row in step_rows if step - evidence.window < row.step <= step]
    after = [row for row in step_rows if row.step > step]
    judged = [(row, cleanness(row, evidence.guards)) for row in (*before, *after)]
    clean_after = 0
    for row, verdict in judged:
        if verdict is Cleanness.UNCLEAN:
            return CheckpointPhase.SUSPECT, f"step {row.step} was not clean"
        if verdict is Cleanness.UNKNOWN and row.step <= step:
            return CheckpointPhase.COMPLETE, f"step {row.step} lacks a guardrail's figure"
        clean_after += row.step > step and verdict is Cleanness.CLEAN
        if clean_after >= evidence.window:
            break
    bad_validation = _bad_validation(step, evidence)
    if bad_validation is not None:
        return CheckpointPhase.SUSPECT, f"the validation at step {bad_validation} was not clean"
    if clean_after < evidence.window and not evidence.finished:
        return CheckpointPhase.COMPLETE, f"{clean_after} of {evidence.window} clean steps behind it"
    if not _validated(step, evidence):
        return CheckpointPhase.COMPLETE, "no validation behind it yet"
    return CheckpointPhase.CONFIRMED, ""


def _validation_guards(evidence: Evidence) -> list[Guardrail]:
    return [guard for guard in evidence.guards if is_validation_metric(guard.conditions[0].metric)]


def _first_validation(step: int, guard: Guardrail, evidence: Evidence) -> tuple[int, float] | None:
    return next((item for item in observations(guard, evidence.rows) if item[0] >= step), None)


def _bad_validation(step: int, evidence: Evidence) -> int | None:
    for guard in _validation_guards(evidence):
        first = _first_validation(step, guard, evidence)
        if first and violated(guard.conditions[0], first[1]):
            return first[0]
    return None


def _validated(step: int, evidence: Evidence) -> bool:
    return all(_first_validation(step, guard, evidence) for guard in _validation_guards(evidence))
