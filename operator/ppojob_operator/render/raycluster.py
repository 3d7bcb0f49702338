"""The RayCluster: survives rollbacks, replaced only for faults and changed cluster fields."""

from typing import Any

from ppojob_contract.names import ANNOTATION_CLUSTER_HASH
from ppojob_operator.domain.hashes import cluster_hash
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.render import names, objects, pods, ray_start
from ppojob_operator.render.settings import RenderSettings

API_VERSION = "ray.io/v1"
WORKER_GROUP = "workers"


def render_cluster(job: AcceptedJob, number: int, settings: RenderSettings) -> dict[str, Any]:
    """`<base>-c<number>`. Raises pods.NoImage where there is no image for the device."""
    spec = job.spec
    one_pod = spec.cluster.nodes == 1
    head = {
        "rayStartParams": ray_start.device_node(spec, head=True) if one_pod else ray_start.deviceless_head(spec),
        "template": pods.head_template(job, settings, with_devices=one_pod),
    }
    annotations = {ANNOTATION_CLUSTER_HASH: cluster_hash(spec)}
    return {
        "apiVersion": API_VERSION,
        "kind": "RayCluster",
        "metadata": objects.metadata(
            job, names.cluster_name(names.base(job.name, job.uid), number), "cluster", annotations=annotations
        ),
        "spec": {
            "rayVersion": settings.ray_version,
            "headGroupSpec": head,
            "workerGroupSpecs": [] if one_pod else [_workers(job, settings)],
        },
    }


def _workers(job: AcceptedJob, settings: RenderSettings) -> dict[str, Any]:
    nodes = job.spec.cluster.nodes
    return {
        "groupName": WORKER_GROUP,
        "replicas": nodes,
        "minReplicas": nodes,
        "maxReplicas": nodes,
        "rayStartParams": ray_start.device_node(job.spec, head=False),
        "template": pods.worker_template(job, settings),
    }
