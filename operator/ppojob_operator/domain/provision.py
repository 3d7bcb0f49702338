"""Whether a Ray cluster is needed, is there, and can be used."""

from datetime import datetime, timedelta

from ppojob_contract.protocol import LockState
from ppojob_operator.domain.decisions import CreateCluster, Decision, RemoveCluster, RemoveRayJob, Wait
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.observation import Observation, RayClusterView, RayJobView, Reach, Trouble

SOON = timedelta(seconds=2)

SILENT_DRIVER = timedelta(seconds=30)
"""How long after its RayJob ended an attempt, or a stage's run, may still write its outcome."""

LOCK_DEADLINE = timedelta(seconds=90)
"""A driver that is not seen gone so long after its RayJob is given up with its whole cluster."""


def cluster_needed(observation: Observation) -> int | None:
    """Number of the RayCluster to create now; None where the current one exists.

    A number that was recorded but never seen is created again: the act may have been lost, and its name makes it
    idempotent. One that was seen and is gone is never created again: its name may not be reused.
    """
    status = observation.job.status
    if status.cluster_number == 0:
        return 1
    if observation.cluster(status.cluster_number) is not None:
        return None
    return status.cluster_number if status.cluster_uid is None else status.cluster_number + 1


def provision(observation: Observation, accepted: AcceptedJob) -> Decision | None:
    """The next act towards a cluster as the spec wants it whose monitor answers; None where there is one."""
    removal = remove_everything(observation) if outdated(observation, accepted) else None
    if removal is not None:
        return removal
    needed = cluster_needed(observation)
    if needed is not None:
        return waiting_for_old_pods(observation) or CreateCluster(number=needed)
    cluster = observation.cluster(observation.job.status.cluster_number)
    if cluster is None or not cluster.ready:
        return Wait(reason="ClusterNotReady", message=describe(cluster), requeue=timedelta(seconds=5))
    if observation.monitor.reach is not Reach.OK or observation.monitor.state is None:
        return Wait(reason="MonitorUnreachable", message=observation.monitor.message, requeue=timedelta(seconds=2))
    return None


def waiting_for_driver(observation: Observation) -> Wait | None:
    """Whether an earlier driver still runs in the cluster's head pod."""
    state = observation.monitor.state
    if state is None or state.lock is LockState.FREE:
        return None
    message = "an earlier driver has not ended yet"
    return Wait(reason="DriverStillRunning", message=message, requeue=timedelta(seconds=2))


def waiting_for_old_pods(observation: Observation) -> Wait | None:
    """Whether an earlier driver may still run in a pod whose RayCluster somebody else deleted."""
    if not observation.leftover_pods:
        return None
    names = ", ".join(observation.leftover_pods[:5])
    return Wait(
        reason="OldPodsTerminating",
        message=f"waiting for the pods of an earlier RayCluster to end: {names} (where their node is gone for good: "
        "kubectl delete pod --force)",
        requeue=SOON,
    )


def remove_everything(observation: Observation) -> Decision | None:
    """RayJobs first: KubeRay would submit a running one again into a new cluster of the same name."""
    for job in observation.jobs:
        if not job.deleting:
            return RemoveRayJob(attempt=job.attempt, name=job.name, uid=job.uid)
    if observation.jobs:
        return deleting_job(observation.jobs[0])
    for cluster in observation.clusters:
        if not cluster.deleting:
            return RemoveCluster(number=cluster.number, name=cluster.name, uid=cluster.uid)
    if observation.clusters:
        cluster = observation.clusters[0]
        return Wait(reason="DeletingRayCluster", message=describe(cluster), requeue=SOON)
    return None


def deleting_job(job: RayJobView) -> Wait:
    message = f"RayJob {job.name} is being deleted{_since(job.deleting_since)}"
    return Wait(reason="DeletingRayJob", message=message, requeue=SOON)


def _since(time: datetime | None) -> str:
    return f" since {time:%Y-%m-%dT%H:%M:%SZ}" if time else ""


def outdated(observation: Observation, accepted: AcceptedJob) -> bool:
    """Whether the cluster that is there was made from other cluster fields than the spec has now."""
    status = observation.job.status
    return observation.cluster(status.cluster_number) is not None and status.cluster_hash != accepted.cluster_hash


def describe(cluster: RayClusterView | None) -> str:
    """What a person should know of a cluster that is not ready."""
    if cluster is None:
        return "the RayCluster is being created"
    if cluster.deleting:
        pod = f": waiting for pod {cluster.head.name} to end" if cluster.head else ""
        return f"RayCluster {cluster.name} is being deleted{_since(cluster.deleting_since)}{pod}"
    if cluster.head is None:
        return cluster.message or f"RayCluster {cluster.name} has no head pod yet"
    if cluster.head.failed:
        return f"head pod {cluster.head.name} failed: {cluster.head.message}"
    if not cluster.head.ready:
        return f"head pod {cluster.head.name} is not ready: {cluster.head.message or 'starting'}"
    ready = f"{cluster.workers_ready} of {cluster.workers_desired} workers are ready"
    return f"{ready}: {cluster.message}" if cluster.message else ready


def trouble(cluster: RayClusterView | None) -> Trouble | None:
    """What somebody has to mend before the cluster gets ready."""
    if cluster is None or cluster.ready or cluster.deleting:
        return None
    return (cluster.head.trouble if cluster.head else None) or cluster.trouble
