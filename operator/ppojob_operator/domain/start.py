"""The way to an attempt: a cluster as the spec wants it, ready and free; then the right checkpoint."""

from collections.abc import Sequence

from ppojob_operator.api.v1alpha1.status import ParameterValue, ResumePoint
from ppojob_operator.domain.data_plan import next_plan
from ppojob_operator.domain.decisions import CreateCluster, Decision, StartAttempt
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.observation import Observation
from ppojob_operator.domain.parameters import in_force
from ppojob_operator.domain.provision import (
    cluster_needed,
    outdated,
    remove_everything,
    waiting_for_cluster,
    waiting_for_old_pods,
)
from ppojob_operator.domain.rollback import act_on_breach
from ppojob_operator.domain.targets import restart_point


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

    `target` is a rollback's checkpoint. Without one the attempt goes on from the newest trustworthy checkpoint, unless
    the claim, now that it can be looked at, shows a breach that nobody saw: that comes first.
    """
    status = observation.job.status
    removal = remove_everything(observation) if outdated(observation, accepted) else None
    if removal is not None:
        return removal
    needed = cluster_needed(observation)
    if needed is not None:
        return waiting_for_old_pods(observation) or CreateCluster(number=needed)
    waiting = waiting_for_cluster(observation, status.cluster_number)
    if waiting is not None:
        return waiting
    unseen = act_on_breach(observation, accepted, judgement) if target is None else None
    if unseen is not None:
        return unseen
    head = observation.ready_head(status.cluster_number)
    assert head is not None, "a cluster that is ready has a head"
    return StartAttempt(
        number=number,
        cluster=status.cluster_number,
        head_uid=head.uid,
        resume=target or restart_point(status, judgement),
        adjustments=in_force(accepted.spec, adjustments),
        data=next_plan(status, accepted),
    )
