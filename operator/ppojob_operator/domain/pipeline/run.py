"""One stage: start its RayJob, watch it, close it, try again. Read off what is observed, so that a crash repeats it."""

from collections.abc import Sequence
from datetime import timedelta

from ppojob_contract.outcomes import ExitClass
from ppojob_contract.protocol import LockState
from ppojob_contract.stages import Stage, StageState
from ppojob_operator.api.v1alpha1.stage_status import StageName, StagePhase, StageStatus
from ppojob_operator.domain.decisions import CloseStage, Decision, RemoveRayJob, StartStage, Wait
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.observation import Observation, RayJobView
from ppojob_operator.domain.pipeline.recorded import recorded, running
from ppojob_operator.domain.pipeline.settings import Work
from ppojob_operator.domain.provision import (
    LOCK_DEADLINE,
    SILENT_DRIVER,
    deleting_job,
    remove_everything,
    waiting_for_driver,
)
from ppojob_operator.domain.rollback import fail

_POLL = timedelta(seconds=3)

FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=10), timedelta(minutes=5)
"""Between a run that failed and the next; doubled with each. What it failed of (a judge, a hub) may need time."""


def advance(observation: Observation, accepted: AcceptedJob, work: Work) -> Decision | None:
    """The next act of a stage, on a cluster that is ready and whose monitor answers; None while its output is there."""
    key, entry = work.key, recorded(observation.job.status, work.stage)
    state = observation.monitor.state
    found = state.stage(work.stage, key) if state is not None else None
    mine = entry if entry is not None and entry.key == key else None
    if mine is not None and mine.phase is StagePhase.RUNNING:
        return _watch(observation, accepted, work, mine, found)
    if mine is not None and mine.phase is StagePhase.SUCCEEDED:
        return None if found is not None and found.complete else _lost_output(mine)
    if found is not None and found.complete:
        return _done(accepted, work, found)
    waiting = waiting_for_driver(observation)
    if waiting is not None:
        overdue = entry is not None and entry.ended is not None and observation.now - entry.ended > LOCK_DEADLINE
        return (remove_everything(observation) if overdue else None) or waiting
    return _pause(observation, mine) or _start(observation, work, run=entry.run + 1 if entry is not None else 1)


def _lost_output(entry: StageStatus) -> CloseStage:
    """What status calls finished is there no more: deleted or cut by somebody, or on a volume that was restored."""
    return CloseStage(
        stage=entry.name,
        key=entry.key or "",
        phase=StagePhase.FAILED,
        result="OutputLost",
        message=f"{entry.output} is not what its manifest says any more, and is made again",
        counts=False,
    )


def _pause(observation: Observation, mine: StageStatus | None) -> Wait | None:
    """Until the next run, after one that failed."""
    if mine is None or mine.phase is not StagePhase.FAILED or mine.failures == 0 or mine.ended is None:
        return None
    pause = min(FIRST_PAUSE * 2 ** min(mine.failures - 1, 10), LONGEST_PAUSE)
    left = mine.ended + pause - observation.now
    if left <= timedelta():
        return None
    message = f"stage {mine.name.value}, run {mine.run} failed ({mine.result}: {mine.message})"
    told = f"{message}; the next one begins {pause.total_seconds():.0f} s after it"
    return Wait(reason="StageBackoff", message=told, requeue=left)


def superseded(observation: Observation, wanted: Sequence[Work]) -> Decision | None:
    """Closes a stage that runs although an edit has made it another one, or taken it away."""
    entry = running(observation.job.status)
    if entry is None or entry.name is StageName.TRIAL:
        return None
    if any((work.stage.value, work.key) == (entry.name.value, entry.key) for work in wanted):
        return None
    return CloseStage(
        stage=entry.name,
        key=entry.key,
        phase=StagePhase.STOPPED,
        result="Superseded",
        message="the spec changed",
        counts=False,
    )


def _start(observation: Observation, work: Work, *, run: int) -> StartStage:
    cluster = observation.job.status.cluster_number
    head = observation.ready_head(cluster)
    assert head is not None, "stages start on clusters that are ready"
    return StartStage(
        stage=work.stage,
        run=run,
        key=work.key,
        settings=work.settings,
        cluster=cluster,
        head_uid=head.uid,
    )


def leftover(observation: Observation) -> Decision | None:
    """Removes RayJobs of stages that are over."""
    now = running(observation.job.status)
    for job in observation.jobs:
        current = now is not None and (now.name.value, now.run) == (job.stage, job.run)
        if job.stage is not None and not current:
            return deleting_job(job) if job.deleting else RemoveRayJob(attempt=0, name=job.name, uid=job.uid)
    return None


def _done(accepted: AcceptedJob, work: Work, found: StageState) -> CloseStage:
    return CloseStage(
        stage=StageName(work.stage.value),
        key=found.key,
        phase=StagePhase.SUCCEEDED,
        result=ExitClass.SUCCEEDED.value,
        message=found.message,
        output=work.output(accepted),
        figures=found.figures,
    )


def _watch(
    observation: Observation, accepted: AcceptedJob, work: Work, entry: StageStatus, found: StageState | None
) -> Decision:
    if found is not None and found.complete:
        return _done(accepted, work, found)
    this = found if found is not None and found.run == entry.run else None
    if this is not None and this.outcome is not None:
        outcome = this.outcome
        if not outcome.exit_class.retryable and outcome.exit_class not in {ExitClass.STOPPED, ExitClass.SUCCEEDED}:
            return fail(observation, outcome.exit_class.value, _told(work.stage, outcome.message))
        return _again(observation, accepted, entry, outcome.exit_class.value, outcome.message)
    job = observation.stage_job(work.stage, entry.run)
    lost = _lost(observation, entry, job)
    if lost is not None:
        return _again(observation, accepted, entry, *lost)
    if job is None:
        return _start(observation, work, run=entry.run)
    if job.deployment_status == "ValidationFailed":
        return fail(observation, "RayJobInvalid", f"KubeRay refused RayJob {job.name}: {job.message}")
    hung = _hung(observation, accepted, entry, this)
    if hung is not None:
        return _again(observation, accepted, entry, ExitClass.HANG.value, hung)
    return Wait(reason="StageRunning", message=_progress(work.stage, this), requeue=_POLL)


def _lost(observation: Observation, entry: StageStatus, job: RayJobView | None) -> tuple[str, str] | None:
    """Why the run cannot come to an end any more."""
    head = observation.ready_head(observation.job.status.cluster_number)
    if entry.cluster != observation.job.status.cluster_number:
        return "ClusterReplaced", f"it ran on RayCluster c{entry.cluster}"
    if head is not None and head.uid != entry.head_uid:
        return "HeadLost", "its head pod was lost"
    if (job is None or job.deleting) and entry.job_uid is not None:
        return "RayJobLost", "its RayJob is gone"
    state = observation.monitor.state
    free = state is not None and state.lock is LockState.FREE
    if entry.driver_ended is None or not free or observation.now - entry.driver_ended < SILENT_DRIVER:
        return None
    said = f" (RayJob {job.job_status or job.deployment_status}: {job.message})" if job is not None else ""
    return ExitClass.UNKNOWN.value, f"its driver ended without an outcome{said}"


def _hung(observation: Observation, accepted: AcceptedJob, entry: StageStatus, this: StageState | None) -> str | None:
    policy = accepted.spec.failure_policy
    if this is None:
        waited = observation.now - entry.created
        if waited > timedelta(seconds=policy.startup_timeout_seconds):
            return (
                f"it did not begin within spec.failurePolicy.startupTimeoutSeconds ({policy.startup_timeout_seconds} s)"
            )
        return None
    silence = this.last_heartbeat_age_seconds
    if silence is not None and silence > policy.step_timeout_seconds:
        return f"no sign of life for {silence:.0f} s (spec.failurePolicy.stepTimeoutSeconds)"
    return None


def _again(observation: Observation, accepted: AcceptedJob, entry: StageStatus, reason: str, message: str) -> Decision:
    """Closes the run; another follows unless too many failed. What a replaced cluster cost is nobody's failure."""
    counts = reason != "ClusterReplaced"
    limit, failures = accepted.spec.failure_policy.max_restarts, entry.failures + counts
    if counts and failures > limit:
        told = f"{message}; {failures} runs failed (spec.failurePolicy.maxRestarts is {limit})"
        return fail(observation, reason, _told(entry.name, told))
    return CloseStage(
        stage=entry.name, key=entry.key, phase=StagePhase.FAILED, result=reason, message=message, counts=counts
    )


def _told(stage: Stage | StageName, message: str) -> str:
    return f"stage {stage.value}: {message}"


def _progress(stage: Stage, this: StageState | None) -> str:
    if this is None:
        return f"stage {stage.value} is starting"
    figures = ", ".join(f"{name} {value:.4g}" for name, value in list(this.figures.items())[:6])
    return f"stage {stage.value} is running" + (f": {figures}" if figures else "")
