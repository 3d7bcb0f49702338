"""What a running attempt calls for."""

from datetime import timedelta

from ppojob_contract.outcomes import ExitClass, Outcome
from ppojob_contract.protocol import AttemptState
from ppojob_operator.api.v1alpha1.status import AttemptStatus, IntentKind
from ppojob_operator.domain.decisions import Begin, Decision, StartAttempt, Wait
from ppojob_operator.domain.intents import intent
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.observation import Observation, Reach
from ppojob_operator.domain.parameters import adjusted, in_force
from ppojob_operator.domain.targets import restart_point, rollback_target

SILENT_DRIVER = timedelta(seconds=30)
"""How long after its RayJob ended an attempt may still write its outcome."""


def supervise(observation: Observation, accepted: AcceptedJob, judgement: Judgement) -> Decision:
    """The next decision about a live attempt."""
    attempt = observation.job.status.attempt
    assert attempt is not None, "only a live attempt is supervised"
    return (
        _breached(observation, accepted, judgement)
        or _ended(observation, accepted, judgement)
        or _lost(observation, accepted, judgement, attempt)
        or _hung(observation, accepted, judgement, attempt)
        or _changed(observation, accepted, attempt)
        or _never_submitted(observation, accepted, attempt)
        or _wait(observation)
    )


def _breached(observation: Observation, accepted: AcceptedJob, judgement: Judgement) -> Decision | None:
    breach = judgement.breach
    if breach is None:
        return None
    status, policy = observation.job.status, accepted.spec.rollback
    target = rollback_target(status, judgement, breach)
    name = breach.guardrail.name
    if target is None:
        return _fail(
            observation,
            "NoConfirmedCheckpoint",
            f"guardrail {name}: {breach.summary}, and no checkpoint was confirmed before; lower "
            "spec.checkpoints.everySteps or confirmSteps, or raise the guardrail's afterStep",
            guardrail=name,
        )
    if status.rollbacks_since_progress >= policy.limit:
        return _fail(
            observation,
            "RollbacksExhausted",
            f"guardrail {name}: {breach.summary}; {status.rollbacks_since_progress} rollbacks brought no later "
            f"confirmed checkpoint (spec.rollback.limit is {policy.limit})",
            guardrail=name,
        )
    return Begin(
        intent=intent(
            observation,
            IntentKind.ROLLBACK,
            reason="GuardrailBreached",
            message=f"guardrail {name}: {breach.summary}; back to step {target.step} of attempt {target.attempt}",
            guardrail=name,
            step=breach.step,
            resume=target,
            adjustments=adjusted(accepted.spec, status.adjustments),
        )
    )


def _ended(observation: Observation, accepted: AcceptedJob, judgement: Judgement) -> Decision | None:
    outcome = judgement.attempt_state.outcome if judgement.attempt_state else None
    if outcome is None:
        return None
    if not judgement.everything_judged:
        return Wait(reason="JudgingLastRows", requeue=timedelta(seconds=1))
    if outcome.exit_class is ExitClass.SUCCEEDED:
        return _succeeded(observation, accepted, outcome)
    if outcome.exit_class is ExitClass.STOPPED:
        return _restart(observation, accepted, judgement, "Stopped", outcome.message)
    if not outcome.exit_class.retryable:
        return _fail(observation, outcome.exit_class.value, outcome.message)
    return _restart(observation, accepted, judgement, outcome.exit_class.value, outcome.message)


def _succeeded(observation: Observation, accepted: AcceptedJob, outcome: Outcome) -> Decision:
    total = accepted.spec.training.total_steps
    if outcome.step < total:
        return _fail(observation, "EndedEarly", f"training ended at step {outcome.step} of {total}")
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
    job = observation.ray_job(attempt.number)
    if job is None or job.deleting:
        if attempt.job_uid is None:
            return None
        return _restart(observation, accepted, judgement, "RayJobLost", "the attempt's RayJob is gone")
    if job.deployment_status == "ValidationFailed":
        return _fail(observation, "RayJobInvalid", f"KubeRay refused RayJob {job.name}: {job.message}")
    if attempt.driver_ended is None or observation.monitor.reach is not Reach.OK:
        return None
    if observation.now - attempt.driver_ended < SILENT_DRIVER:
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
    if attempt.job_uid is not None or observation.ray_job(attempt.number) is not None or attempt.head_uid is None:
        return None
    return StartAttempt(
        number=attempt.number,
        cluster=attempt.cluster,
        head_uid=attempt.head_uid,
        resume=attempt.resume,
        adjustments=in_force(accepted.spec, observation.job.status.adjustments),
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
    status, policy = observation.job.status, accepted.spec.failure_policy
    if status.restarts_since_progress >= policy.max_restarts and not _progressed(observation, judgement):
        return _fail(
            observation,
            reason,
            f"{message}; {status.restarts_since_progress} restarts brought no new step "
            f"(spec.failurePolicy.maxRestarts is {policy.max_restarts})",
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


def _progressed(observation: Observation, judgement: Judgement) -> bool:
    last = judgement.last_row.step if judgement.last_row else 0
    return last > observation.job.status.restart_mark


def _fail(observation: Observation, reason: str, message: str, *, guardrail: str | None = None) -> Decision:
    return Begin(
        intent=intent(
            observation, IntentKind.FAIL, reason=reason, message=message, guardrail=guardrail, replace_cluster=True
        )
    )
