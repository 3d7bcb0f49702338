"""The way to an attempt: a cluster as the spec wants it, the stages before, no other driver, the right checkpoint."""

from collections.abc import Sequence

from ppojob_operator.api.v1alpha1.status import ParameterValue, ResumePoint
from ppojob_operator.domain.data_plan import next_plan
from ppojob_operator.domain.decisions import Decision, StartAttempt, Wait
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.observation import Observation
from ppojob_operator.domain.parameters import in_force
from ppojob_operator.domain.pipeline.flow import before_training
from ppojob_operator.domain.provision import SOON, provision, waiting_for_driver
from ppojob_operator.domain.retention import must_free_space
from ppojob_operator.domain.rollback import act_on_breach, fail
from ppojob_operator.domain.source import source
from ppojob_operator.domain.targets import all_lost, resume_point


def start(
    observation: Observation,
    accepted: AcceptedJob,
    judgement: Judgement,
    *,
    number: int,
    adjustments: Sequence[ParameterValue],
    target: ResumePoint | None = None,
) -> Decision:
    """The next act towards attempt `number`.

    `target` is a rollback's checkpoint, or a person's choice. Without one the attempt goes on from the newest
    trustworthy checkpoint, unless the claim, now that it can be looked at, shows a breach that nobody saw: that comes
    first.
    """
    status = observation.job.status
    way = provision(observation, accepted) or before_training(observation, accepted) or waiting_for_driver(observation)
    if way is not None:
        return way
    unseen = act_on_breach(observation, accepted, judgement) if target is None else None
    if unseen is not None:
        return unseen
    resume = resume_point(status, judgement, target)
    if resume is None and all_lost(observation, judgement):
        message = "no checkpoint can be loaded any more (see status.checkpoints); training is not begun anew"
        return fail(observation, "NoUsableCheckpoint", message)
    if must_free_space(observation, judgement):
        return Wait(reason="FreeingSpace", message="the volume is almost full: old checkpoints go first", requeue=SOON)
    begin = source(observation, accepted)
    if isinstance(begin, str):
        return Wait(reason="SourceNotFound", message=begin)
    head = observation.ready_head(status.cluster_number)
    assert head is not None, "a cluster that is ready has a head"
    return StartAttempt(
        number=number,
        cluster=status.cluster_number,
        head_uid=head.uid,
        resume=resume,
        source=begin,
        adjustments=in_force(accepted.spec, adjustments),
        data=next_plan(status, accepted),
    )
