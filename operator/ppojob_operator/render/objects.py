"""What every object of a job carries: whose it is, and labels to find it by."""

from typing import Any

from ppojob_contract.names import LABEL_COMPONENT, LABEL_JOB, LABEL_JOB_UID
from ppojob_operator.api.v1alpha1.resource import API_VERSION, KIND
from ppojob_operator.domain.job import AcceptedJob

MANAGER = "ppojob-operator"


def labels(job: AcceptedJob, component: str) -> dict[str, str]:
    """`component`: cluster, head, worker, attempt, monitor."""
    return {
        "app.kubernetes.io/name": "ppojob",
        "app.kubernetes.io/instance": job.name,
        LABEL_COMPONENT: component,
        "app.kubernetes.io/managed-by": MANAGER,
        LABEL_JOB: job.name,
        LABEL_JOB_UID: job.uid,
    }


def owner_reference(job: AcceptedJob) -> dict[str, Any]:
    """Deletion of the PPOJob never waits for its objects (blockOwnerDeletion), which are then collected."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def metadata(
    job: AcceptedJob, name: str, component: str, *, annotations: dict[str, str] | None = None
) -> dict[str, Any]:
    """Of an object that the job owns."""
    return {
        "namespace": job.namespace,
        "name": name,
        "labels": labels(job, component),
        **({"annotations": annotations} if annotations else {}),
        "ownerReferences": [owner_reference(job)],
    }
