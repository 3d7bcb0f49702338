"""Carrying out a recorded intent: every step is read off what is observed, so a crash repeats and never doubles.

rollback in place (`hot.py`), or:
ask to stop -> outcome -> delete the RayJob -> its end is recorded -> lock free
-> rollback, restart, spec change: [next cluster ->] next attempt
-> suspend, fail, complete: delete the cluster -> settled or finished
"""

from datetime import datetime, timedelta

from ppojob_contract.mailbox import AckResult
from ppojob_contract.outcomes import ExitClass
from ppojob_contract.protocol import LockState
from ppojob_operator.api.v1alpha1.status import AttemptStatus, Intent, IntentKind
from ppojob_operator.domain.decisions import (
    AskToStop,
    CloseAttempt,
    Decision,
    Finish,
    RemoveRayJob,
    Settle,
    Wait,
)
from ppojob_operator.domain.hot import hot, switched
from ppojob_operator.domain.intent import NEXT_ATTEMPT
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.observation import Observation, Reach
from ppojob_operator.domain.pause import resting
from ppojob_operator.domain.pipeline.flow import after_training, all_done
from ppojob_operator.domain.provision import LOCK_DEADLINE, SOON, deleting_job, remove_everything
from ppojob_operator.domain.requested import REQUESTED, wanted_point
from ppojob_operator.domain.start import start

STOP_MARGIN = timedelta(seconds=30)
"""Beyond gracefulStopSeconds, for the command to arrive and the outcome to be seen."""

LINGER = timedelta(seconds=20)
"""How long a finished job's head pod stays, so that Prometheus gets its last figures."""


def carry_out(observation: Observation, accepted: AcceptedJob, judgement: Judgement) -> Decision:
    """The next act of the recorded intent."""
    status = observation.job.status
    assert status.intent is not None, "only a recorded intent is carried out"
    attempt = status.attempt
    if attempt is not None and attempt.ended is None:
        return _end(observation, accepted, judgement, status.intent, attempt)
    if status.intent.kind in NEXT_ATTEMPT:
        return _go_on(observation, accepted, judgement, status.intent)
    return _close_down(observation, accepted, judgement, status.intent)


def _end(
    observation: Observation, accepted: AcceptedJob, judgement: Judgement, current: Intent, attempt: AttemptStatus
) -> Decision:
    """Stops the driver, then deletes the RayJob, then closes the attempt."""
    in_place = hot(observation, accepted, judgement, current, attempt)
    if in_place is not None:
        return in_place
    job = observation.ray_job(attempt.carrier)
    if job is None:
        return CloseAttempt()
    if job.deleting:
        return deleting_job(job)
    if _driver_done(observation, judgement, attempt) or _stop_overdue(observation, accepted, current):
        return RemoveRayJob(attempt=attempt.carrier, name=job.name, uid=job.uid)
    command = judgement.attempt_state.command if judgement.attempt_state else None
    if command is not None and current.stop_requested is not None:
        return Wait(reason="Stopping", message="waiting for the trainer to stop", requeue=SOON)
    if observation.monitor.reach is not Reach.OK:
        return Wait(reason="MonitorUnreachable", message=observation.monitor.message, requeue=SOON)
    return AskToStop(
        attempt=attempt.number, command_id=current.id, save=current.kind not in {IntentKind.ROLLBACK, IntentKind.FAIL}
    )


def _driver_done(observation: Observation, judgement: Judgement, attempt: AttemptStatus) -> bool:
    """Nothing is left that could be asked to stop, and to whom deleting the RayJob says more than waiting would."""
    ack = judgement.attempt_state.ack if judgement.attempt_state else None
    if ack is not None and ack.result is AckResult.REFUSED:
        return True  # its mailbox is used up, and it trains on
    if judgement.attempt_state is not None and judgement.attempt_state.outcome is not None:
        return True
    state = observation.monitor.state
    held = state is not None and state.lock is LockState.HELD
    if (attempt.driver_ended is not None and not held) or _never_ran(observation, judgement):
        return True
    cluster = observation.cluster(attempt.cluster)
    return (
        cluster is None
        or cluster.head is None
        or cluster.head.failed
        or cluster.head.restarts > 0
        or cluster.head.uid != attempt.head_uid
    )


def _never_ran(observation: Observation, judgement: Judgement) -> bool:
    """The claim knows nothing of the attempt and no driver holds its lock: there is nobody to ask."""
    state = observation.monitor.state
    return state is not None and judgement.attempt_state is None and state.lock is LockState.FREE


def _stop_overdue(observation: Observation, accepted: AcceptedJob, current: Intent) -> bool:
    grace = timedelta(seconds=accepted.spec.graceful_stop_seconds) + STOP_MARGIN
    return observation.now - (current.stop_requested or current.since) > grace


def _go_on(observation: Observation, accepted: AcceptedJob, judgement: Judgement, current: Intent) -> Decision:
    """Starts the next attempt, on this cluster if it can be used, else on the next."""
    done = switched(judgement, current)
    if done is not None:
        return done  # the claim can be looked at again, and shows that the trainer had got so far
    if accepted.spec.suspend:
        return remove_everything(observation) or resting(observation.job.status)
    if _cluster_must_go(observation, current):
        removal = remove_everything(observation)
        if removal is not None:
            return removal
    status = observation.job.status
    chosen = current.resume if current.kind is IntentKind.ROLLBACK or current.reason == REQUESTED else None
    assert current.next_attempt is not None, "intents of this kind name the next attempt"
    return start(
        observation,
        accepted,
        judgement,
        number=current.next_attempt,
        adjustments=current.adjustments,
        target=chosen or wanted_point(status, accepted, judgement),
    )


def _cluster_must_go(observation: Observation, current: Intent) -> bool:
    """Asked for with the intent and not done yet, or its driver does not end."""
    attempt = observation.job.status.attempt
    if attempt is None or observation.job.status.cluster_number != attempt.cluster:
        return False
    if current.replace_cluster:
        return True
    state = observation.monitor.state
    free = state is not None and state.lock is LockState.FREE
    return not free and attempt.ended is not None and observation.now - attempt.ended > LOCK_DEADLINE


def _close_down(observation: Observation, accepted: AcceptedJob, judgement: Judgement, current: Intent) -> Decision:
    """What is done with a trained model, then gives the devices back, then ends."""
    if current.kind is IntentKind.COMPLETE:
        if accepted.spec.suspend and not all_done(observation.job.status, accepted):
            return remove_everything(observation) or resting(observation.job.status)
        more = after_training(observation, accepted, judgement)
        if more is not None:
            return more
    if current.kind is IntentKind.COMPLETE and observation.now - _last_figures(observation, current) < LINGER:
        return Wait(reason="Lingering", message="the last figures are left to be scraped", requeue=SOON)
    removal = remove_everything(observation)
    if removal is not None:
        return removal
    if current.kind is IntentKind.SUSPEND:
        return Settle()
    succeeded = current.kind is IntentKind.COMPLETE
    return Finish(succeeded=succeeded, outcome=_outcome(current), reason=current.reason, message=current.message)


def _last_figures(observation: Observation, current: Intent) -> datetime:
    return max([current.since, *(item.ended for item in observation.job.status.stages if item.ended is not None)])


def _outcome(current: Intent) -> ExitClass:
    if current.kind is IntentKind.COMPLETE:
        return ExitClass.SUCCEEDED
    return ExitClass(current.reason) if current.reason in set(ExitClass) else ExitClass.UNKNOWN
