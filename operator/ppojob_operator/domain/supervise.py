"""What a running attempt calls for."""

from datetime import timedelta

from ppojob_contract.mailbox import prestop_id
from ppojob_contract.outcomes import ExitClass, Outcome
from ppojob_contract.protocol import AttemptState, LockState
from ppojob_operator.api.v1alpha1.status import AttemptStatus, IntentKind
from ppojob_operator.domain.counters import restarts_without_progress
from ppojob_operator.domain.decisions import Begin, Decision, StartAttempt, Wait
from ppojob_operator.domain.intent import intent
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.observation import Observation, Reach
from ppojob_operator.domain.parameters import in_force
from ppojob_operator.domain.provision import SILENT_DRIVER
from ppojob_operator.domain.requested import restart
from ppojob_operator.domain.rollback import act_on_breach, fail, in_words
from ppojob_operator.domain.targets import UNLOADABLE, restart_point

LOST_MONITOR = timedelta(minutes=5)
"""How long a monitor may be away when its RayJob has ended; another cluster then tells what the claim knows."""


def supervise(observation: Observation, accepted: AcceptedJob, judgement: Judgement) -> Decision:
    """The next decision about a live attempt."""
    attempt = observation.job.status.attempt
    assert attempt is not None, "only a live attempt is supervised"
    return (
        _ended_for_good(observation, judgement)
        or act_on_breach(observation, accepted, judgement)
        or _ended(observation, accepted, judgement, attempt)
        or _lost(observation, accepted, judgement, attempt)
        or _driver_lost(observation, accepted, judgement, attempt)
        or _hung(observation, accepted, judgement, attempt)
        or restart(observation, accepted, judgement)
        or _changed(observation, accepted, attempt)
        or _never_submitted(observation, accepted, attempt)
        or _wait(observation)
    )


_LAST_ROWS = Wait(reason="JudgingLastRows", requeue=timedelta(seconds=1))

_BEYOND_ROLLBACK = {ExitClass.CONFIG_ERROR, ExitClass.DATA_ERROR}
"""The next attempt would end in the same way, whatever its weights; what is not finite or out of memory may not."""


def _ended_for_good(observation: Observation, judgement: Judgement) -> Decision | None:
    """Comes before a breach of the same rows, which is told with it."""
    outcome = judgement.attempt_state.outcome if judgement.attempt_state else None
    if outcome is None or outcome.unusable is not None or outcome.exit_class not in _BEYOND_ROLLBACK:
        return None
    if not judgement.everything_judged:
        return _LAST_ROWS
    breach = judgement.breach
    told = f"; before that {in_words(breach)}, and no rollback would mend this" if breach is not None else ""
    return fail(observation, outcome.exit_class.value, outcome.message + told)


def _ended(
    observation: Observation, accepted: AcceptedJob, judgement: Judgement, attempt: AttemptStatus
) -> Decision | None:
    outcome = judgement.attempt_state.outcome if judgement.attempt_state else None
    if outcome is None:
        return None
    if not judgement.everything_judged:
        return _LAST_ROWS
    if outcome.exit_class is ExitClass.SUCCEEDED:
        return _succeeded(observation, accepted, outcome, attempt)
    if outcome.unusable is not None:
        return _without(observation, accepted, judgement, outcome.message)
    if outcome.exit_class is ExitClass.STOPPED:
        return _stopped(observation, accepted, judgement, outcome, attempt)
    if not outcome.exit_class.retryable:
        return fail(observation, outcome.exit_class.value, outcome.message)
    # Workers that lost each other may leave a cluster that looks ready and is not.
    lost = outcome.exit_class is ExitClass.COMMUNICATION
    reason = outcome.exit_class.value
    return _restart(observation, accepted, judgement, reason, outcome.message, replace_cluster=lost)


def _stopped(
    observation: Observation, accepted: AcceptedJob, judgement: Judgement, outcome: Outcome, attempt: AttemptStatus
) -> Decision:
    """Not by the operator: a pod that is deleted lets the trainer save and stop first (its preStop hook)."""
    lost = _lost(observation, accepted, judgement, attempt)
    if lost is not None:
        return lost
    command = judgement.attempt_state.command if judgement.attempt_state else None
    asked = command.id if command else ""
    message = f"was deleted; before that the trainer {outcome.message}"
    if asked == prestop_id(attempt.head_uid or "") or _head_deleting(observation, attempt):
        message = f"the head pod of RayCluster c{attempt.cluster} {message}"
        return _restart(observation, accepted, judgement, "HeadLost", message, replace_cluster=True)
    if asked.startswith(prestop_id("")):
        return _restart(observation, accepted, judgement, "WorkerLost", f"a worker pod {message}")
    return _restart(observation, accepted, judgement, "Stopped", outcome.message)


def _head_deleting(observation: Observation, attempt: AttemptStatus) -> bool:
    cluster = observation.cluster(attempt.cluster)
    return cluster is not None and cluster.head is not None and cluster.head.deleting


def _without(observation: Observation, accepted: AcceptedJob, judgement: Judgement, message: str) -> Decision:
    """The checkpoint that was to be gone on from cannot be loaded: the one before. Each is tried once, so no limit."""
    status = observation.job.status
    return Begin(
        intent=intent(
            observation,
            IntentKind.RESTART,
            reason=UNLOADABLE,
            message=f"{message}; the next attempt takes the checkpoint before",
            resume=restart_point(status, judgement),
            adjustments=in_force(accepted.spec, status.adjustments),
        )
    )


def _succeeded(observation: Observation, accepted: AcceptedJob, outcome: Outcome, attempt: AttemptStatus) -> Decision:
    total = accepted.spec.training.total_steps
    if outcome.step < total:
        message = f"training ended at step {outcome.step} of {total}"
        return _changed(observation, accepted, attempt) or fail(observation, "EndedEarly", message)
    return Begin(
        intent=intent(
            observation,
            IntentKind.COMPLETE,
            reason="Succeeded",
            message=f"all {total} steps are done",
            replace_cluster=True,
        )
    )


def _lost(
    observation: Observation, accepted: AcceptedJob, judgement: Judgement, attempt: AttemptStatus
) -> Decision | None:
    """Node, head or driver gone without a word."""
    cluster = observation.cluster(attempt.cluster)
    if cluster is None or cluster.deleting:
        message = f"RayCluster c{attempt.cluster} is gone"
        return _restart(observation, accepted, judgement, "ClusterLost", message, replace_cluster=True)
    head = cluster.head
    if head is None or head.failed or head.restarts > 0 or head.uid != attempt.head_uid:
        message = f"the head pod of {cluster.name} was lost" + (f": {head.message}" if head and head.message else "")
        return _restart(observation, accepted, judgement, "HeadLost", message, replace_cluster=True)
    return None


def _driver_lost(
    observation: Observation, accepted: AcceptedJob, judgement: Judgement, attempt: AttemptStatus
) -> Decision | None:
    """The RayJob is gone, was refused, or has ended while nothing on the claim says so."""
    job = observation.ray_job(attempt.carrier)
    if job is None or job.deleting:
        if attempt.job_uid is None:
            return None
        return _restart(observation, accepted, judgement, "RayJobLost", "the attempt's RayJob is gone")
    if job.deployment_status == "ValidationFailed":
        return fail(observation, "RayJobInvalid", f"KubeRay refused RayJob {job.name}: {job.message}")
    if attempt.driver_ended is None:
        return None
    since_end = observation.now - attempt.driver_ended
    state = observation.monitor.state
    if observation.monitor.reach is not Reach.OK or state is None:
        if since_end < LOST_MONITOR:
            return None
        message = f"the driver ended, and its monitor does not answer: {observation.monitor.message}"
        return _restart(observation, accepted, judgement, "MonitorLost", message, replace_cluster=True)
    if state.lock is LockState.HELD:
        return None  # KubeRay lost sight of a driver that lives
    if since_end < SILENT_DRIVER:
        return Wait(reason="DriverEnded", message="waiting for the attempt's outcome", requeue=timedelta(seconds=2))
    message = f"the driver ended without an outcome (RayJob {job.job_status or job.deployment_status}: {job.message})"
    return _restart(observation, accepted, judgement, ExitClass.UNKNOWN.value, message)


def _hung(
    observation: Observation, accepted: AcceptedJob, judgement: Judgement, attempt: AttemptStatus
) -> Decision | None:
    if observation.monitor.reach is not Reach.OK:
        return None
    policy = accepted.spec.failure_policy
    age = observation.now - attempt.created
    if judgement.last_row is None and age > timedelta(seconds=policy.startup_timeout_seconds):
        message = f"no step within spec.failurePolicy.startupTimeoutSeconds ({policy.startup_timeout_seconds} s)"
        return _restart(observation, accepted, judgement, ExitClass.HANG.value, message)
    silence = _silence(judgement.attempt_state)
    if silence is not None and silence > policy.step_timeout_seconds:
        message = f"no sign of life for {silence:.0f} s (spec.failurePolicy.stepTimeoutSeconds)"
        return _restart(observation, accepted, judgement, ExitClass.HANG.value, message)
    return None


def _silence(state: AttemptState | None) -> float | None:
    return state.last_heartbeat_age_seconds if state else None


def _changed(observation: Observation, accepted: AcceptedJob, attempt: AttemptStatus) -> Decision | None:
    """An edit of the spec that the running attempt cannot take in."""
    status = observation.job.status
    new_cluster = status.cluster_hash != accepted.cluster_hash
    if not new_cluster and attempt.training_hash == accepted.training_hash:
        return None
    return Begin(
        intent=intent(
            observation,
            IntentKind.SPEC_CHANGE,
            reason="SpecChanged",
            message=f"the spec changed (generation {accepted.generation}): the next attempt goes on from the newest "
            "checkpoint",
            replace_cluster=new_cluster,
            adjustments=in_force(accepted.spec, status.adjustments),
        )
    )


def _never_submitted(observation: Observation, accepted: AcceptedJob, attempt: AttemptStatus) -> Decision | None:
    """The attempt is recorded but its RayJob was never seen: create it, again if need be."""
    if attempt.job_uid is not None or observation.ray_job(attempt.carrier) is not None or attempt.head_uid is None:
        return None
    return StartAttempt(
        number=attempt.number,
        cluster=attempt.cluster,
        head_uid=attempt.head_uid,
        resume=attempt.resume,
        source=attempt.source,
        adjustments=in_force(accepted.spec, observation.job.status.adjustments),
        data=attempt.data,
    )


def _wait(observation: Observation) -> Wait:
    monitor = observation.monitor
    if monitor.reach is not Reach.OK:
        return Wait(reason="MonitorUnreachable", message=monitor.message, requeue=timedelta(seconds=5))
    return Wait(reason="Training")


def _restart(
    observation: Observation,
    accepted: AcceptedJob,
    judgement: Judgement,
    reason: str,
    message: str,
    *,
    replace_cluster: bool = False,
) -> Decision:
    status, limit = observation.job.status, accepted.spec.failure_policy.max_restarts
    restarts = restarts_without_progress(status, judgement)
    if restarts >= limit:
        return fail(
            observation,
            reason,
            f"{message}; {restarts} restarts brought no new step (spec.failurePolicy.maxRestarts is {limit})",
        )
    return Begin(
        intent=intent(
            observation,
            IntentKind.RESTART,
            reason=reason,
            message=message,
            replace_cluster=replace_cluster,
            resume=restart_point(status, judgement),
            adjustments=in_force(accepted.spec, status.adjustments),
        )
    )
