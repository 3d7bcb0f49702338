"""A restart that a person asks for: `spec.restart`. It is fulfilled by an attempt that begins where it says."""

from ppojob_operator.api.v1alpha1.checkpoints import Restart
from ppojob_operator.api.v1alpha1.status import CheckpointPhase, IntentKind, PPOJobStatus, ResumePoint
from ppojob_operator.domain.decisions import Begin, Decision
from ppojob_operator.domain.intent import intent
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.lineage import contains, lineage
from ppojob_operator.domain.observation import Observation
from ppojob_operator.domain.parameters import in_force
from ppojob_operator.domain.targets import checkpoints

REQUESTED = "RestartRequested"
"""Reason of the intent."""

_NOT_THERE = {CheckpointPhase.SAVING, CheckpointPhase.UNUSABLE}


def asked(status: PPOJobStatus, accepted: AcceptedJob) -> Restart | None:
    """What is asked for and not fulfilled; a job that has not begun yet has nothing to do again."""
    wanted = accepted.spec.restart
    fulfilled = wanted is None or wanted.nonce == status.observed_restart_nonce
    return None if fulfilled or status.attempt is None else wanted


def can_be_done(status: PPOJobStatus, accepted: AcceptedJob, judgement: Judgement) -> bool:
    """Whether it is asked for and its checkpoint is there."""
    wanted = asked(status, accepted)
    return wanted is not None and (wanted.from_step is None or wanted_point(status, accepted, judgement) is not None)


def wanted_point(status: PPOJobStatus, accepted: AcceptedJob, judgement: Judgement) -> ResumePoint | None:
    """The checkpoint of `fromStep`, in whatever state as long as it can be loaded: a person may know better.

    Of several attempts' the one that led to today's weights, else the newest.
    """
    wanted = asked(status, accepted)
    if wanted is None or wanted.from_step is None:
        return None
    segments = lineage(status)
    found = [
        ((contains(segments, item.attempt, item.step), item.attempt), item)
        for item in checkpoints(status, judgement)
        if item.step == wanted.from_step and item.phase not in _NOT_THERE
    ]
    if not found:
        return None
    best = max(found, key=lambda pair: pair[0])[1]
    return ResumePoint(attempt=best.attempt, step=best.step)


def what_is_there(status: PPOJobStatus, accepted: AcceptedJob, judgement: Judgement) -> str | None:
    """Why the request cannot be fulfilled, and what could; None where nothing stands in its way."""
    wanted = asked(status, accepted)
    if wanted is None or can_be_done(status, accepted, judgement):
        return None
    steps = sorted({item.step for item in checkpoints(status, judgement) if item.phase not in _NOT_THERE})
    there = f"there are those of steps {', '.join(map(str, steps))}" if steps else "there is none"
    return f"spec.restart.fromStep: no checkpoint of step {wanted.from_step} can be loaded; {there}"


def restart(observation: Observation, accepted: AcceptedJob, judgement: Judgement) -> Decision | None:
    """Begins it: the attempt stops as for an edit, saving what it has."""
    status = observation.job.status
    if not can_be_done(status, accepted, judgement):
        return None
    point = wanted_point(status, accepted, judgement)
    where = f"step {point.step} of attempt {point.attempt}" if point else "the newest checkpoint"
    return Begin(
        intent=intent(
            observation,
            IntentKind.SPEC_CHANGE,
            reason=REQUESTED,
            message=f"spec.restart.nonce changed: the next attempt goes on from {where}",
            replace_cluster=status.cluster_hash != accepted.cluster_hash,
            resume=point,
            adjustments=in_force(accepted.spec, status.adjustments),
        )
    )


def observed(status: PPOJobStatus, accepted: AcceptedJob, resume: ResumePoint | None) -> str | None:
    """`status.observedRestartNonce` once an attempt begins at `resume`."""
    wanted = accepted.spec.restart
    if wanted is None:
        return status.observed_restart_nonce
    elsewhere = wanted.from_step is not None and (resume is None or resume.step != wanted.from_step)
    return status.observed_restart_nonce if asked(status, accepted) and elsewhere else wanted.nonce
