"""What is thought of each checkpoint on the claim."""

from collections.abc import Sequence
from dataclasses import dataclass

from ppojob_contract.mailbox import CheckpointRef
from ppojob_contract.protocol import CheckpointState
from ppojob_operator.api.v1alpha1.status import CheckpointPhase
from ppojob_operator.domain.guardrails.cleanness import CleanRows
from ppojob_operator.domain.guardrails.episodes import Breach
from ppojob_operator.domain.lineage import Segment, contains


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
    clean: CleanRows
    attempt: int
    """The current one."""
    breach: Breach | None = None
    """Of a Rollback guardrail, in the current attempt: what came after it proves nothing."""
    finished: bool = False
    """Training reached its last step: the rows still lacking behind a checkpoint are waived."""


def judge_checkpoint(
    state: CheckpointState, evidence: Evidence, confirmed: frozenset[CheckpointRef]
) -> JudgedCheckpoint:
    """Puts one checkpoint into its phase."""
    phase, message = _phase(state, evidence, confirmed)
    return JudgedCheckpoint(ref=state.ref, phase=phase, size_bytes=state.size_bytes, message=message)


def _phase(
    state: CheckpointState, evidence: Evidence, confirmed: frozenset[CheckpointRef]
) -> tuple[CheckpointPhase, str]:
    ref, breach = state.ref, evidence.breach
    if state.saving:
        return CheckpointPhase.SAVING, ""
    if state.problem is not None:
        return CheckpointPhase.UNUSABLE, state.problem
    if not contains(evidence.lineage, ref.attempt, ref.step):
        return CheckpointPhase.ABANDONED, "the run went back to an earlier step"
    if breach is not None and ref.attempt == evidence.attempt and ref.step >= breach.first_step - 1:
        return CheckpointPhase.SUSPECT, f"the run was bad from step {breach.first_step} on"
    if ref in confirmed:
        return CheckpointPhase.CONFIRMED, ""
    if breach is None:
        return evidence.clean.trust(ref.step, finished=evidence.finished)
    return evidence.clean.trust(ref.step, through=breach.step)
