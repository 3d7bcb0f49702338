"""What the rows and files of a job say, before anything is decided."""

from dataclasses import dataclass

from ppojob_contract.journal import RowKind
from ppojob_contract.mailbox import CheckpointRef
from ppojob_contract.outcomes import ExitClass
from ppojob_contract.protocol import AttemptState, StepRow
from ppojob_operator.api.v1alpha1.status import CheckpointPhase, PPOJobStatus
from ppojob_operator.domain.checkpoints import (
    Evidence,
    JudgedCheckpoint,
    judge_checkpoint,
    rollback_guardrails,
    window,
)
from ppojob_operator.domain.guardrails import Assessment, Breach, assess, first_breach
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.lineage import lineage, rows_of
from ppojob_operator.domain.observation import Observation, Reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One reading of everything observed."""

    assessments: tuple[Assessment, ...] = ()
    breach: Breach | None = None
    checkpoints: tuple[JudgedCheckpoint, ...] | None = None
    """None where the claim could not be looked at: what the status says stays."""
    attempt_state: AttemptState | None = None
    last_row: StepRow | None = None
    """Newest step row of the current attempt."""
    everything_judged: bool = False
    """All rows that the current attempt has written were read."""

    @property
    def confirmed(self) -> tuple[CheckpointRef, ...]:
        return tuple(item.ref for item in self.checkpoints or () if item.phase is CheckpointPhase.CONFIRMED)


def judge(observation: Observation) -> Judgement:
    """Folds the journal and looks at the checkpoints; pure."""
    accepted, status = observation.accepted, observation.job.status
    if accepted is None or status.attempt is None:
        return Judgement()
    monitor = observation.monitor
    number = status.attempt.number
    rows = monitor.rows.get(number, ())
    resume_step = status.attempt.resume.step if status.attempt.resume else None
    grace = 0 if resume_step is None else resume_step + accepted.spec.rollback.grace_steps
    assessments = tuple(assess(item, rows, grace_through=grace) for item in accepted.spec.guardrails)
    breach = first_breach(assessments)
    state = monitor.state.attempt(number) if monitor.state else None
    return Judgement(
        assessments=assessments,
        breach=breach,
        checkpoints=_checkpoints(observation, accepted, breach, state),
        attempt_state=state,
        last_row=next((row for row in reversed(rows) if row.kind is RowKind.STEP), None),
        everything_judged=state is not None and len(rows) >= state.rows,
    )


def _checkpoints(
    observation: Observation, accepted: AcceptedJob, breach: Breach | None, state: AttemptState | None
) -> tuple[JudgedCheckpoint, ...] | None:
    monitor, status = observation.monitor, observation.job.status
    if monitor.reach is not Reach.OK or monitor.state is None:
        return None
    segments = lineage(status)
    current = status.attempt.number if status.attempt else 0
    rows = tuple(
        row
        for segment in segments
        for row in rows_of([segment], monitor.rows)
        if breach is None or segment.attempt != current or row.step <= breach.step
    )
    evidence = Evidence(
        lineage=segments,
        rows=rows,
        guards=rollback_guardrails(accepted.spec),
        window=window(accepted.spec),
        bad=(current, breach.first_step) if breach else None,
        finished=state is not None
        and state.outcome is not None
        and state.outcome.exit_class is ExitClass.SUCCEEDED
        and breach is None,
    )
    confirmed = frozenset(known_confirmed(status)) | frozenset(monitor.state.confirmed)
    return tuple(judge_checkpoint(item, evidence, confirmed) for item in monitor.state.checkpoints)


def known_confirmed(status: PPOJobStatus) -> list[CheckpointRef]:
    """What the status calls Confirmed."""
    return [
        CheckpointRef(attempt=item.attempt, step=item.step)
        for item in status.checkpoints.items
        if item.phase is CheckpointPhase.CONFIRMED
    ]
