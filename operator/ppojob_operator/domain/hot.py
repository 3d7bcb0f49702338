"""A rollback in the running trainer: one command, and whoever claims it first owns what happens next.

command put, claimed, acknowledged       the next attempt runs already, in the same RayJob
command put, claimed, failed or silent   cold; the next attempt's number is used up
command put, claimed, refused            cold
command put, not claimed in time         revoked, cold; the trainer stops without saving
"""

from datetime import timedelta

from ppojob_contract.mailbox import AckResult, CheckpointRef, Claimant, Command, CommandKind
from ppojob_contract.protocol import AttemptState
from ppojob_operator.api.v1alpha1.spec import RollbackMode
from ppojob_operator.api.v1alpha1.status import AttemptStatus, Intent, IntentKind, RollbackPath
from ppojob_operator.domain.data_plan import plan
from ppojob_operator.domain.decisions import Decision, GoCold, Revoke, RollBackInPlace, SwitchAttempt, Wait
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.observation import Observation, Reach
from ppojob_operator.domain.pace import median_step_seconds
from ppojob_operator.domain.provision import SOON

CLAIM_MARGIN = timedelta(seconds=30)
"""Beyond two steps: the trainer looks for a command at each step and while it waits for generation."""


def possible(observation: Observation, accepted: AcceptedJob, judgement: Judgement) -> bool:
    """Whether the trainer that runs can go on as the next attempt."""
    status, state = observation.job.status, judgement.attempt_state
    attempt = status.attempt
    if accepted.spec.rollback.path is RollbackMode.COLD or attempt is None or attempt.ended is not None:
        return False
    trains = state is not None and state.outcome is None and judgement.last_row is not None
    return trains and _as_accepted(observation, accepted, attempt) and _driver_is_there(observation, attempt)


def _as_accepted(observation: Observation, accepted: AcceptedJob, attempt: AttemptStatus) -> bool:
    """Whether it was started with what the spec has now."""
    return (attempt.training_hash, observation.job.status.cluster_hash) == (
        accepted.training_hash,
        accepted.cluster_hash,
    )


def _driver_is_there(observation: Observation, attempt: AttemptStatus) -> bool:
    job, head = observation.ray_job(attempt.carrier), observation.ready_head(attempt.cluster)
    return job is not None and not job.ended and not job.deleting and head is not None and head.uid == attempt.head_uid


def hot(
    observation: Observation, accepted: AcceptedJob, judgement: Judgement, current: Intent, attempt: AttemptStatus
) -> Decision | None:
    """The next act of a rollback that has not gone cold; None for all others."""
    done = switched(judgement, current)
    if done is not None or current.path is not RollbackPath.HOT:
        return done
    state = judgement.attempt_state
    if observation.monitor.reach is not Reach.OK or state is None:
        return _blind(observation, accepted, current, attempt)
    mine = state.command is not None and state.command.id == current.id
    if state.command is not None and not mine:
        return GoCold(message="the trainer has been asked for something else", number_used=False)
    if mine and state.claimed_by is not None:
        return _claimed(observation, accepted, current, attempt, state)
    if state.outcome is not None or not _driver_is_there(observation, attempt):
        # A command that was put may still be claimed by a driver that is only thought to be gone.
        return GoCold(message="the trainer has ended", number_used=mine and state.outcome is None)
    if not mine and not _as_accepted(observation, accepted, attempt):
        return GoCold(message="the spec changed", number_used=False)
    if not mine:
        return RollBackInPlace(attempt=attempt.number, command=command(current))
    if _since_command(observation, current) > 2 * _step(observation, attempt) + CLAIM_MARGIN:
        return Revoke(attempt=attempt.number)
    return Wait(reason="AwaitingTrainer", message="the trainer has not seen the command yet", requeue=SOON)


def switched(judgement: Judgement, current: Intent) -> SwitchAttempt | None:
    """The trainer has said that it runs the next attempt: that holds whatever was thought meanwhile."""
    state = judgement.attempt_state
    if current.kind is not IntentKind.ROLLBACK or state is None or state.ack is None or state.command is None:
        return None
    if state.ack.id != current.id or state.ack.result is not AckResult.DONE or state.command.next_attempt is None:
        return None
    if state.command.kind is not CommandKind.ROLLBACK:
        return None
    return SwitchAttempt(number=state.command.next_attempt)


def command(current: Intent) -> Command:
    """What the trainer is told; the same for the same intent."""
    assert current.resume is not None, "a rollback has a target"
    return Command(
        id=current.id,
        kind=CommandKind.ROLLBACK,
        target=CheckpointRef(attempt=current.resume.attempt, step=current.resume.step),
        settings={item.parameter.value: item.value for item in current.adjustments},
        next_attempt=current.next_attempt,
        data=plan(current.data),
    )


def _claimed(
    observation: Observation, accepted: AcceptedJob, current: Intent, attempt: AttemptStatus, state: AttemptState
) -> Decision:
    if state.claimed_by is Claimant.MONITOR:
        return GoCold(message="the trainer did not see the command in time", number_used=False)
    if state.ack is not None:
        refused = state.ack.result is AckResult.REFUSED
        return GoCold(message=f"the trainer {_WORDS[state.ack.result]}: {state.ack.message}", number_used=not refused)
    if state.outcome is not None or not _driver_is_there(observation, attempt):
        return GoCold(message="the trainer ended while it rolled back", number_used=True)
    if _since_command(observation, current) > timedelta(seconds=accepted.spec.failure_policy.startup_timeout_seconds):
        return GoCold(message="the trainer did not finish (failurePolicy.startupTimeoutSeconds)", number_used=True)
    return Wait(reason="RollingBackInPlace", message="the trainer loads the checkpoint", requeue=timedelta(seconds=1))


_WORDS = {AckResult.REFUSED: "cannot do it in place", AckResult.FAILED: "failed to", AckResult.DONE: "did"}


def _blind(observation: Observation, accepted: AcceptedJob, current: Intent, attempt: AttemptStatus) -> Decision:
    """Nothing is known of the mailbox. A number that the trainer may have taken is used up."""
    told = current.commanded is not None
    if not _driver_is_there(observation, attempt):
        return GoCold(message="the trainer was lost", number_used=told)
    patience = timedelta(seconds=accepted.spec.failure_policy.startup_timeout_seconds)
    if observation.now - (current.commanded or current.since) > patience:
        return GoCold(message=f"its monitor does not answer: {observation.monitor.message}", number_used=told)
    return Wait(reason="MonitorUnreachable", message=observation.monitor.message, requeue=SOON)


def _since_command(observation: Observation, current: Intent) -> timedelta:
    return observation.now - (current.commanded or observation.now)


def _step(observation: Observation, attempt: AttemptStatus) -> timedelta:
    rows = observation.monitor.rows.get(attempt.number, ())
    return timedelta(seconds=median_step_seconds(rows) or 0.0)
