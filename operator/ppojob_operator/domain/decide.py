"""The whole policy: deletion > finishing the recorded intent > suspend > what the live attempt calls for (`supervise`:
fail for what no rollback mends > breaches > how it ended > spec change).

Each function below answers one question of that order and returns None where its case is not given.
"""

from datetime import timedelta

from ppojob_operator.api.v1alpha1.status import IntentKind, PPOJobStatus
from ppojob_operator.domain.carry_out import carry_out
from ppojob_operator.domain.decisions import CLAIM_NOT_FOUND, Begin, Decision, DeleteJob, Refuse, Wait
from ppojob_operator.domain.intent import intent
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.observation import Observation
from ppojob_operator.domain.pause import paused, resting
from ppojob_operator.domain.pipeline.again import take_up
from ppojob_operator.domain.pipeline.trial import stop_trial, trial
from ppojob_operator.domain.requested import wanted_point
from ppojob_operator.domain.start import start
from ppojob_operator.domain.supervise import supervise


def decide(observation: Observation, judgement: Judgement) -> Decision:
    """What to do next about one job."""
    job, accepted = observation.job, observation.accepted
    if job.deleting:
        return Wait(reason="Deleting")
    if job.status.finished is not None:
        return (take_up(observation, accepted) if accepted else None) or _after_the_end(observation)
    if accepted is None:
        return Refuse()
    if job.status.intent is not None:
        return carry_out(observation, accepted, judgement)
    if accepted.spec.suspend or paused(job.status):
        return _suspend(observation)
    if live(job.status):
        return supervise(observation, accepted, judgement)
    return _start(observation, accepted, judgement)


def live(status: PPOJobStatus) -> bool:
    """Whether an attempt was begun and its end not written down."""
    return status.attempt is not None and status.attempt.ended is None


def _after_the_end(observation: Observation) -> Decision:
    accepted, finished = observation.accepted, observation.job.status.finished
    ttl = accepted.spec.ttl_seconds_after_finished if accepted else None
    if ttl is None or finished is None:
        return Wait(reason="Finished", requeue=timedelta(hours=1))
    left = finished + timedelta(seconds=ttl) - observation.now
    if left <= timedelta():
        return DeleteJob()
    return Wait(reason="Finished", requeue=min(left, timedelta(hours=1)))


def _suspend(observation: Observation) -> Decision:
    status = observation.job.status
    trying = stop_trial(observation, "the job was suspended")
    if trying is not None:
        return trying
    if not live(status) and not observation.clusters and not observation.jobs:
        return resting(status)
    return Begin(
        intent=intent(
            observation, IntentKind.SUSPEND, reason="Suspended", message="spec.suspend is true", replace_cluster=True
        )
    )


def _start(observation: Observation, accepted: AcceptedJob, judgement: Judgement) -> Decision:
    """A first attempt, or the next one after a suspension."""
    status = observation.job.status
    if observation.storage_bound is False:
        return Wait(
            reason=CLAIM_NOT_FOUND,
            message=f"spec.storage.claimName: no PersistentVolumeClaim '{accepted.spec.storage.claim_name}' in "
            f"namespace {accepted.namespace}; create it",
        )
    return trial(observation, accepted) or start(
        observation,
        accepted,
        judgement,
        number=(status.attempt.number if status.attempt else 0) + 1,
        adjustments=status.adjustments,
        target=wanted_point(status, accepted, judgement),
    )
