"""From the API server's JSON to what the operator needs of it. Pure; small, since thousands are kept in memory."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ppojob_contract.names import LABEL_JOB, LABEL_JOB_UID
from ppojob_operator.domain.observation import HeadPod, RayClusterView, RayJobView, Trouble
from ppojob_operator.ports import Key
from ppojob_operator.render import names

_NODE_TYPE = "ray.io/node-type"
_JUST_BEGINNING = frozenset({None, "", "ContainerCreating", "PodInitializing"})
_NO_IMAGE = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRecord:
    """A RayCluster without its pods."""

    name: str
    uid: str
    number: int
    deleting_since: datetime | None
    workers_desired: int
    message: str
    trouble: Trouble | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRecord:
    """A Ray pod, judged by its Ray container, which is the first one."""

    name: str
    uid: str
    head: bool
    created: str
    deleting: bool
    ip: str | None
    ready: bool
    failed: bool
    ended: bool
    """No process of it is left."""
    restarts: int
    message: str
    trouble: Trouble | None


def controller(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The controlling owner reference."""
    references = body["metadata"].get("ownerReferences", [])
    return next((item for item in references if item.get("controller")), None)


def owning_job(body: Mapping[str, Any]) -> Key | None:
    """The PPOJob that controls a Ray object, or that a pod says it works for."""
    metadata, owner = body["metadata"], controller(body)
    if owner is not None and owner["kind"] == "PPOJob":
        return Key(metadata["namespace"], owner["name"], owner["uid"])
    labels = metadata.get("labels", {})
    if LABEL_JOB in labels and LABEL_JOB_UID in labels:
        return Key(metadata["namespace"], labels[LABEL_JOB], labels[LABEL_JOB_UID])
    return None


def cluster_record(body: Mapping[str, Any]) -> ClusterRecord:
    metadata, status = body["metadata"], body.get("status", {})
    failures = (item for item in status.get("conditions", []) if item["type"] == "ReplicaFailure")
    failure = next((item.get("message", "") for item in failures if item["status"] == "True"), "")
    return ClusterRecord(
        name=metadata["name"],
        uid=metadata["uid"],
        number=names.cluster_number(metadata["name"]) or 0,
        deleting_since=_deleting_since(metadata),
        workers_desired=sum(_workers(group) for group in body["spec"].get("workerGroupSpecs", [])),
        message=failure or status.get("reason", ""),
        trouble=Trouble.PODS_REFUSED if failure else None,
    )


def _deleting_since(metadata: Mapping[str, Any]) -> datetime | None:
    return datetime.fromisoformat(metadata["deletionTimestamp"]) if "deletionTimestamp" in metadata else None


def _workers(group: Mapping[str, Any]) -> int:
    return 0 if group.get("suspend") else int(group.get("replicas", 0)) * int(group.get("numOfHosts", 1))


def ray_job_view(body: Mapping[str, Any]) -> RayJobView:
    metadata, status = body["metadata"], body.get("status", {})
    stage = names.stage_run(metadata["name"])
    return RayJobView(
        name=metadata["name"],
        uid=metadata["uid"],
        attempt=names.attempt_number(metadata["name"]) or 0,
        deleting="deletionTimestamp" in metadata,
        job_status=status.get("jobStatus", ""),
        deployment_status=status.get("jobDeploymentStatus", ""),
        message=status.get("message", "") or status.get("reason", ""),
        deleting_since=_deleting_since(metadata),
        stage=stage[0] if stage else None,
        run=stage[1] if stage else 0,
    )


def pod_record(body: Mapping[str, Any]) -> PodRecord:
    metadata, status = body["metadata"], body.get("status", {})
    ray_name = body["spec"]["containers"][0]["name"]
    ray: Mapping[str, Any] = next(
        (item for item in status.get("containerStatuses", []) if item["name"] == ray_name), {}
    )
    deleting = "deletionTimestamp" in metadata
    ended = status.get("phase") in {"Failed", "Succeeded"}
    trouble, message = _why_not(status, deleting=deleting)
    return PodRecord(
        name=metadata["name"],
        uid=metadata["uid"],
        head=metadata.get("labels", {}).get(_NODE_TYPE) == "head",
        created=metadata["creationTimestamp"],
        deleting=deleting,
        ip=status.get("podIP"),
        ready=bool(ray.get("ready")) and not deleting,
        failed=ended or "terminated" in ray.get("state", {}),
        ended=ended,
        restarts=int(ray.get("restartCount", 0)),
        message=message,
        trouble=trouble,
    )


def _why_not(status: Mapping[str, Any], *, deleting: bool) -> tuple[Trouble | None, str]:
    """Why a pod does not run, in one line; empty where nothing is wrong or it only just begins."""
    if deleting:
        return None, "the pod is being deleted"
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            reason = condition.get("message") or condition.get("reason", "")
            return Trouble.UNSCHEDULABLE, f"not scheduled: {reason}"
    statuses = [*status.get("containerStatuses", []), *status.get("initContainerStatuses", [])]
    told = next(filter(None, map(_container, statuses)), None)
    return told or (None, str(status.get("message", "") or status.get("reason", "")))


def _container(status: Mapping[str, Any]) -> tuple[Trouble | None, str] | None:
    """What is wrong with it; None where nothing is."""
    name, state = status["name"], status.get("state", {})
    waiting, ended = state.get("waiting"), state.get("terminated")
    if waiting and waiting.get("reason") not in _JUST_BEGINNING:
        reason = waiting["reason"]
        trouble = Trouble.IMAGE_NOT_PULLED if reason in _NO_IMAGE else Trouble.CONTAINER_NOT_STARTED
        return trouble, _line(f"container {name}: {reason}", waiting.get("message"))
    if ended and ended.get("exitCode"):
        return None, _line(f"container {name} ended: {ended.get('reason', 'Error')} ({ended['exitCode']})", None)
    return None


def _line(start: str, detail: str | None) -> str:
    return " ".join(f"{start}: {detail}".split()) if detail else start


def cluster_view(record: ClusterRecord, pods: Iterable[PodRecord]) -> RayClusterView:
    """A RayCluster with its pods. A head that is being deleted counts only while there is no other."""
    heads = sorted((pod for pod in pods if pod.head), key=lambda pod: (not pod.deleting, pod.created))
    workers = [pod for pod in pods if not pod.head and not pod.deleting]
    troubled = next((pod for pod in workers if pod.message), None)
    return RayClusterView(
        name=record.name,
        uid=record.uid,
        number=record.number,
        deleting=record.deleting_since is not None,
        head=_head(heads[-1]) if heads else None,
        workers_ready=sum(pod.ready and not pod.failed for pod in workers),
        workers_desired=record.workers_desired,
        message=f"worker {troubled.name}: {troubled.message}" if troubled else record.message,
        trouble=(troubled.trouble if troubled else None) or record.trouble,
        deleting_since=record.deleting_since,
    )


def _head(pod: PodRecord) -> HeadPod:
    return HeadPod(
        name=pod.name,
        uid=pod.uid,
        ip=pod.ip,
        ready=pod.ready,
        failed=pod.failed,
        restarts=pod.restarts,
        message=pod.message,
        trouble=pod.trouble,
        deleting=pod.deleting,
    )
