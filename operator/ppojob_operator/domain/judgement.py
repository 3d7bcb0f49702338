"""What the rows and files of a job say, before anything is decided."""

from dataclasses import dataclass

from ppojob_contract.journal import RowKind
from ppojob_contract.mailbox import CheckpointRef
from ppojob_contract.outcomes import ExitClass
from ppojob_contract.protocol import AttemptState, StepRow
from ppojob_operator.api.v1alpha1.status import AttemptStatus, CheckpointPhase, PPOJobStatus
from ppojob_operator.domain.checkpoints import Evidence, JudgedCheckpoint, judge_checkpoint
from ppojob_operator.domain.guardrails.episodes import Assessment, Breach, first_breach, first_rollback
from ppojob_operator.domain.guardrails.fold import Judged
from ppojob_operator.domain.guardrails.kept import Basis, Kept
from ppojob_operator.domain.guardrails.readings import no_queries
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.lineage import lineage
from ppojob_operator.domain.observation import Observation, Reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One reading of everything observed."""

    assessments: tuple[Assessment, ...] = ()
    breach: Breach | None = None
    """The first that must be acted on."""
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


def judge(observation: Observation, kept: Kept | None = None) -> Judgement:
    """Folds the journal and looks at the checkpoints."""
    accepted, status = observation.accepted, observation.job.status
    if accepted is None or status.attempt is None:
        return Judgement()
    monitor = observation.monitor
    number = status.attempt.number
    judged = _judge_rows(observation, accepted, status.attempt, kept or Kept())
    state = monitor.state.attempt(number) if monitor.state else None
    rows = monitor.rows.get(number, ())
    return Judgement(
        assessments=judged.assessments,
        breach=first_breach(judged.assessments),
        checkpoints=_checkpoints(observation, judged, state),
        attempt_state=state,
        last_row=next((row for row in reversed(rows) if row.kind is RowKind.STEP), None),
        everything_judged=state is not None and len(rows) >= state.rows and not _unasked(observation, judged),
    )


def _unasked(observation: Observation, judged: Judged) -> bool:
    """Whether Prometheus may still say something about rows that are there."""
    return judged.pending and observation.queries is not None and not observation.queries.given_up


def _judge_rows(observation: Observation, accepted: AcceptedJob, attempt: AttemptStatus, kept: Kept) -> Judged:
    grace = 0 if attempt.resume is None else attempt.resume.step + accepted.spec.rollback.grace_steps
    basis = Basis(
        spec=accepted.spec,
        attempt=attempt.number,
        grace_through=grace,
        segments=lineage(observation.job.status),
    )
    queries = observation.queries
    return kept.judge(basis, observation.monitor.rows, no_queries if queries is None else queries.at)


def _checkpoints(
    observation: Observation, judged: Judged, state: AttemptState | None
) -> tuple[JudgedCheckpoint, ...] | None:
    monitor, status = observation.monitor, observation.job.status
    if monitor.reach is not Reach.OK or monitor.state is None:
        return None
    breach = first_rollback(judged.assessments)
    evidence = Evidence(
        lineage=lineage(status),
        clean=judged.clean,
        attempt=status.attempt.number if status.attempt else 0,
        breach=breach,
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
