"""What the operator reads out of Ray objects and pods."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.unit.adapters import objects

from ppojob_operator.adapters.kubernetes import views


def view(*pods: dict[str, Any], workers: int = 0) -> views.RayClusterView:
    record = views.cluster_record(objects.cluster(workers=workers, number=3))
    return views.cluster_view(record, [views.pod_record(pod) for pod in pods])


def test_a_running_cluster() -> None:
    found = view(objects.pod(), objects.pod(name="w1", head=False), workers=1)
    assert found.head is not None
    assert (found.number, found.head.ip, found.head.ready, found.head.failed) == (3, "10.0.0.1", True, False)
    assert (found.workers_ready, found.workers_desired, found.ready) == (1, 1, True)


def test_a_cluster_without_pods_has_no_head() -> None:
    assert view().head is None


def test_workers_wanted_are_counted_over_groups() -> None:
    groups = [{"replicas": 2, "numOfHosts": 2}, {"replicas": 1}, {"replicas": 5, "suspend": True}]
    assert views.cluster_record(objects.cluster() | {"spec": {"workerGroupSpecs": groups}}).workers_desired == 5


def test_a_replaced_head_is_the_new_one() -> None:
    old, new = objects.pod(name="old"), objects.pod(name="new", ready=False)
    new["metadata"]["creationTimestamp"] = "2026-01-01T00:05:00Z"
    for pods in ((objects.deleting(old), new), (new, objects.deleting(old))):
        head = view(*pods).head
        assert head is not None
        assert head.name == "new"


def test_a_head_that_is_being_deleted_is_not_ready() -> None:
    head = view(objects.deleting(objects.pod())).head
    assert head is not None
    assert (head.ready, head.message) == (False, "the pod is being deleted")


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Failed"},
        {"containerStatuses": [{"name": "ray", "ready": False, "state": {"terminated": {"exitCode": 137}}}]},
    ],
)
def test_a_dead_head_has_failed(status: dict[str, Any]) -> None:
    head = view(objects.pod(**status)).head
    assert head is not None
    assert head.failed


def test_the_monitors_restarts_are_not_rays() -> None:
    statuses = [
        {"name": "sidecar", "ready": True, "restartCount": 4, "state": {}},
        {"name": "ray", "ready": True, "restartCount": 1, "state": {}},
    ]
    head = view(objects.pod(containerStatuses=statuses)).head
    assert head is not None
    assert head.restarts == 1


@pytest.mark.parametrize(
    ("status", "trouble", "told"),
    [
        (
            {
                "containerStatuses": [],
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
                ],
            },
            "Unschedulable",
            "not scheduled: 0/1 nodes",
        ),
        (
            {
                "containerStatuses": [
                    {
                        "name": "ray",
                        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off\npulling"}},
                    }
                ]
            },
            "ImageNotPulled",
            "container ray: ImagePullBackOff: Back-off pulling",
        ),
        (
            {"containerStatuses": [{"name": "ray", "state": {"waiting": {"reason": "CreateContainerConfigError"}}}]},
            "ContainerNotStarted",
            "container ray: CreateContainerConfigError",
        ),
        ({"containerStatuses": [{"name": "ray", "state": {"waiting": {"reason": "PodInitializing"}}}]}, None, ""),
        (
            {
                "initContainerStatuses": [
                    {"name": "monitor", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}
                ]
            },
            None,
            "container monitor ended: Error (1)",
        ),
        ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, None, "low on memory"),
    ],
)
def test_why_a_pod_does_not_run(status: dict[str, Any], trouble: str | None, told: str) -> None:
    head = view(objects.pod(**status)).head
    assert head is not None
    assert (head.trouble, head.message) == (trouble, told)


def test_pods_that_the_api_server_refuses() -> None:
    condition = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: gpus"}
    record = views.cluster_record(objects.cluster(conditions=[condition]))
    found = views.cluster_view(record, [])
    assert (found.trouble, found.message) == ("PodsRefused", "exceeded quota: gpus")


def test_since_when_something_is_being_deleted() -> None:
    since = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    cluster = views.cluster_view(views.cluster_record(objects.deleting(objects.cluster())), [])
    assert (cluster.deleting, cluster.deleting_since) == (True, since)
    assert views.ray_job_view(objects.deleting(objects.ray_job())).deleting_since == since


def test_a_workers_trouble_is_the_clusters_message() -> None:
    waiting = [{"name": "ray", "state": {"waiting": {"reason": "ErrImagePull"}}}]
    found = view(objects.pod(), objects.pod(name="w1", head=False, containerStatuses=waiting), workers=1)
    assert (found.trouble, found.message) == ("ImageNotPulled", "worker w1: container ray: ErrImagePull")
    assert not found.ready


def test_a_ray_job() -> None:
    body = objects.ray_job(attempt=12, jobStatus="FAILED", jobDeploymentStatus="Failed", message="exit 1")
    found = views.ray_job_view(objects.deleting(body))
    assert (found.attempt, found.deleting, found.ended, found.message) == (12, True, True, "exit 1")
