"""Builders of API objects as the server sends them."""

from typing import Any

from ppojob_contract.names import LABEL_JOB, LABEL_JOB_UID
from ppojob_operator.ports import Key

KEY = Key("ns", "job", "job-uid")


def job(version: int = 1, *, key: Key = KEY, generation: int = 1, **extra: Any) -> dict[str, Any]:
    return {
        "apiVersion": "rlhf.dev/v1alpha1",
        "kind": "PPOJob",
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "uid": key.uid,
            "generation": generation,
            "resourceVersion": str(version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{}],
        },
        "spec": {},
        **extra,
    }


def _owned(kind: str, name: str, uid: str, version: int, key: Key) -> dict[str, Any]:
    owner = {"apiVersion": "rlhf.dev/v1alpha1", "kind": "PPOJob", "name": key.name, "uid": key.uid, "controller": True}
    return {
        "apiVersion": "ray.io/v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": key.namespace,
            "uid": uid,
            "resourceVersion": str(version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {LABEL_JOB: key.name, LABEL_JOB_UID: key.uid},
            "ownerReferences": [owner],
        },
        "spec": {},
    }


def cluster(version: int = 1, *, number: int = 1, workers: int = 0, key: Key = KEY, **status: Any) -> dict[str, Any]:
    body = _owned("RayCluster", f"job-abcde-c{number}", f"cluster-{number}", version, key)
    body["spec"] = {"workerGroupSpecs": [{"replicas": workers}]}
    return body | {"status": status}


def ray_job(version: int = 1, *, attempt: int = 1, key: Key = KEY, **status: Any) -> dict[str, Any]:
    return _owned("RayJob", f"job-abcde-a{attempt}", f"rayjob-{attempt}", version, key) | {"status": status}


def pod(
    version: int = 1, *, name: str = "head", head: bool = True, number: int = 1, ready: bool = True, **extra: Any
) -> dict[str, Any]:
    body = _owned("Pod", name, f"pod-{name}", version, KEY)
    body["metadata"]["labels"]["ray.io/node-type"] = "head" if head else "worker"
    owner = {"kind": "RayCluster", "name": f"job-abcde-c{number}", "uid": f"cluster-{number}", "controller": True}
    body["metadata"]["ownerReferences"] = [owner]
    body["spec"] = {"containers": [{"name": "ray"}]}
    body["status"] = {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "containerStatuses": [{"name": "ray", "ready": ready, "restartCount": 0, "state": {"running": {}}}],
        **extra,
    }
    return body


def deleting(body: dict[str, Any]) -> dict[str, Any]:
    return body | {"metadata": body["metadata"] | {"deletionTimestamp": "2026-01-01T00:01:00Z"}}
