"""What a decision about a stage writes into the status, before it is acted on."""

from ppojob_contract.stages import MAX_FIGURES, Stage
from ppojob_operator.api.v1alpha1.stage_status import StageName, StagePhase, StageStatus
from ppojob_operator.api.v1alpha1.status import Intent, PPOJobStatus
from ppojob_operator.domain.decisions import CloseStage, StartStage, StartTrial
from ppojob_operator.domain.observation import Observation
from ppojob_operator.domain.pipeline.recorded import recorded, running, with_stage


def stage_transition(
    observation: Observation, status: PPOJobStatus, decision: StartStage | CloseStage | StartTrial
) -> PPOJobStatus:
    """The status with the decision in it."""
    match decision:
        case StartStage():
            return _started(observation, status, decision)
        case StartTrial(run=run):
            return _trial(observation, status, run)
        case CloseStage():
            return _closed(observation, status, decision)


def _started(observation: Observation, status: PPOJobStatus, decision: StartStage) -> PPOJobStatus:
    before = recorded(status, decision.stage)
    same = before is not None and before.key == decision.key
    if before is not None and same and before.run == decision.run and before.phase is StagePhase.RUNNING:
        return status
    entry = StageStatus(
        name=StageName(decision.stage.value),
        phase=StagePhase.RUNNING,
        run=decision.run,
        key=decision.key,
        failures=before.failures if before is not None and same else 0,
        cluster=decision.cluster,
        head_uid=decision.head_uid,
        created=observation.now,
    )
    return with_stage(status, entry)


def _trial(observation: Observation, status: PPOJobStatus, run: int) -> PPOJobStatus:
    before = recorded(status, StageName.TRIAL)
    if before is not None and before.run == run:
        return status
    entry = StageStatus(name=StageName.TRIAL, phase=StagePhase.RUNNING, run=run, created=observation.now)
    return with_stage(status, entry)


def _closed(observation: Observation, status: PPOJobStatus, decision: CloseStage) -> PPOJobStatus:
    before = recorded(status, decision.stage)
    base = before or StageStatus(name=decision.stage, phase=decision.phase, run=0, created=observation.now)
    failed = decision.phase is StagePhase.FAILED and decision.counts
    entry = base.model_copy(
        update={
            "phase": decision.phase,
            "key": decision.key,
            "failures": base.failures + failed,
            "ended": observation.now,
            "result": decision.result[:64],
            "message": decision.message[:1024],
            "output": decision.output or None,
            "figures": {name: f"{value:.6g}" for name, value in list(decision.figures.items())[:MAX_FIGURES]},
        }
    )
    return with_stage(status, entry)


def stage_failed(status: PPOJobStatus, end: Intent) -> PPOJobStatus:
    """The job is about to fail; a stage that runs is what it fails of."""
    entry = running(status)
    if entry is None:
        return status
    said = {"result": end.reason[:64], "message": end.message[:1024], "ended": end.since}
    return with_stage(status, entry.model_copy(update={"phase": StagePhase.FAILED} | said))


def stages_stopped(observation: Observation, status: PPOJobStatus) -> PPOJobStatus:
    """Nothing of the job runs any more."""
    entry = running(status)
    if entry is None:
        return status
    return with_stage(status, entry.model_copy(update={"phase": StagePhase.STOPPED, "ended": observation.now}))


def stages_seen(observation: Observation, status: PPOJobStatus) -> PPOJobStatus:
    """What the stage's RayJob, or the trial, has shown of itself."""
    entry = running(status)
    if entry is None:
        return status
    if entry.name is StageName.TRIAL:
        seen = observation.trial_job
        return with_stage(status, entry.model_copy(update={"job_uid": seen.uid})) if seen else status
    job = observation.stage_job(Stage(entry.name.value), entry.run)
    if job is None:
        return status
    ended = observation.now if job.ended and entry.driver_ended is None else entry.driver_ended
    return with_stage(status, entry.model_copy(update={"job_uid": job.uid, "driver_ended": ended}))
