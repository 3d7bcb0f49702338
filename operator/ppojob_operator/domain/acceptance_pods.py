"""Pods as the operator and the trainer need them: what a spec may not change about them."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ppojob_contract import names
from ppojob_operator.api.v1alpha1.quantities import quantity_bytes
from ppojob_operator.api.v1alpha1.spec import Device, PPOJobSpec
from ppojob_operator.domain import effective
from ppojob_operator.domain.acceptance_pod_fields import unknown_fields
from ppojob_operator.domain.acceptance_resources import resource_problems
from ppojob_operator.domain.observation import Problem

_RESERVED_ENV = frozenset(
    {
        "FQ_RAY_IP", "RAY_ADDRESS", "RAY_CLOUD_INSTANCE_ID", "RAY_CLUSTER_NAME",
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S", "RAY_IP", "RAY_JOB_STOP_WAIT_TIME_S", "RAY_NODE_TYPE_NAME", "RAY_PORT",
        "RAY_REDIS_ADDRESS", "RAY_USAGE_STATS_ENABLED", "RAY_enable_autoscaler_v2",
        "REDIS_PASSWORD", "REDIS_USERNAME",
    }
)  # fmt: skip
_RESERVED = "is set by the operator or by KubeRay"
_MOUNTS = {names.STORAGE_MOUNT, names.RUN_MOUNT, names.TOKEN_MOUNT, "/dev/shm"}  # noqa: S108 (a mount of the pod)
_VOLUMES = re.compile(r"shared-memory|storage|run|token|function-\d+")
_LABELS = re.compile(r"(ray\.io|rlhf\.dev)/.+|app\.kubernetes\.io/(name|instance|component|managed-by)")

_POD_FIELDS = {
    "restartPolicy": "a restarted Ray container would be an empty cluster",
    "automountServiceAccountToken": "no trainer pod has a service-account token",
    "terminationGracePeriodSeconds": "follows spec.gracefulStopSeconds",
    "shareProcessNamespace": "Ray's container must end with all of its processes",
    "hostname": "Ray's nodes are found by KubeRay",
    "subdomain": "Ray's nodes are found by KubeRay",
}
_CONTAINER_FIELDS = {
    "command": "KubeRay starts Ray",
    "args": "KubeRay starts Ray",
    "lifecycle": "it stops the trainer before the pod ends",
    "restartPolicy": "the operator judges by it",
    "image": "use spec.trainer.image",
    "imagePullPolicy": "use spec.trainer.imagePullPolicy",
}

MIN_SHARED_MEMORY = 256 * 2**20
"""Ray refuses an object store below 75 MiB, and the trainer's processes need some."""

_TEMPLATE = "spec.cluster.podTemplate"


def pod_problems(spec: PPOJobSpec, imageless: Collection[Device]) -> Iterator[Problem]:
    """Of `trainer.image`, `trainer.env` and `cluster`."""
    yield from _device(spec, imageless)
    for item in spec.trainer.env:
        if _reserved(item.name):
            yield Problem(field=f"spec.trainer.env[{item.name}]", message=_RESERVED)
    yield from resource_problems(spec.cluster, _TEMPLATE)
    yield from _template(spec.cluster.pod_template)


def _reserved(variable: str) -> bool:
    return variable.startswith("PPOJOB_") or variable in _RESERVED_ENV


def _device(spec: PPOJobSpec, imageless: Collection[Device]) -> Iterator[Problem]:
    cluster = spec.cluster
    if cluster.device in imageless and spec.trainer.image is None:
        message = f"the operator has no image for device {cluster.device}: name one"
        yield Problem(field="spec.trainer.image", message=message)
    if cluster.device is Device.CPU and cluster.resource_name is not None:
        yield Problem(field="spec.cluster.resourceName", message="device CPU has no extended resource")
    resource = effective.resource_name(spec)
    for name, part in (("requests", cluster.resources.requests), ("limits", cluster.resources.limits)):
        if resource in part:
            message = "devices come from spec.cluster.devicesPerNode"
            yield Problem(field=f"spec.cluster.resources.{name}[{resource}]", message=message)
    shared = quantity_bytes(cluster.shared_memory)
    if shared is None or shared < MIN_SHARED_MEMORY:
        message = "must be 256Mi or more: Ray keeps its objects in it"
        yield Problem(field="spec.cluster.sharedMemory", message=message)


def _template(template: Mapping[str, Any]) -> Iterator[Problem]:
    yield from _only(template, {"metadata", "spec"}, _TEMPLATE)
    metadata, pod = template.get("metadata", {}), template.get("spec", {})
    if not isinstance(metadata, Mapping) or not isinstance(pod, Mapping):
        yield Problem(field=_TEMPLATE, message="metadata and spec must be maps")
        return
    yield from _only(metadata, {"labels", "annotations"}, f"{_TEMPLATE}.metadata")
    labels = metadata.get("labels")
    for label in labels if isinstance(labels, Mapping) else ():
        if _LABELS.fullmatch(str(label)):
            yield Problem(field=f"{_TEMPLATE}.metadata.labels[{label}]", message="pods are found by it")
    for field, reason in _POD_FIELDS.items():
        if field in pod:
            yield Problem(field=f"{_TEMPLATE}.spec.{field}", message=f"cannot be changed: {reason}")
    yield from unknown_fields(pod, f"{_TEMPLATE}.spec")
    yield from _volumes(pod.get("volumes", []), f"{_TEMPLATE}.spec.volumes")
    for kind, ours in (("containers", "ray"), ("initContainers", "monitor")):
        yield from _containers(pod.get(kind, []), ours, f"{_TEMPLATE}.spec.{kind}")


def _only(node: Mapping[str, Any], allowed: set[str], path: str) -> Iterator[Problem]:
    for key in node:
        if key not in allowed:
            yield Problem(field=f"{path}.{key}", message=f"only {' and '.join(sorted(allowed))} can be laid over")


def _named(items: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]] | Problem]:
    if not isinstance(items, list):
        yield Problem(field=path, message="must be a list")
        return
    for index, item in enumerate(items):
        if isinstance(item, Mapping) and isinstance(item.get("name"), str):
            yield item["name"], item
        else:
            yield Problem(field=f"{path}[{index}].name", message="is required: items are merged by their name")


def _volumes(items: Any, path: str) -> Iterator[Problem]:
    for item in _named(items, path):
        if isinstance(item, Problem):
            yield item
        elif _VOLUMES.fullmatch(item[0]):
            yield Problem(field=f"{path}[{item[0]}]", message="the operator has a volume of this name")


def _containers(items: Any, ours: str, path: str) -> Iterator[Problem]:
    for item in _named(items, path):
        if isinstance(item, Problem):
            yield item
            continue
        name, container = item
        if name != ours:
            continue
        for field, reason in _CONTAINER_FIELDS.items():
            if field in container:
                yield Problem(field=f"{path}[{name}].{field}", message=f"cannot be changed: {reason}")
        variables = container.get("env")
        for variable in variables if isinstance(variables, list) else ():
            if isinstance(variable, Mapping) and _reserved(str(variable.get("name", ""))):
                yield Problem(field=f"{path}[{name}].env[{variable['name']}]", message=_RESERVED)
        mounts = container.get("volumeMounts")
        for mount in mounts if isinstance(mounts, list) else ():
            if isinstance(mount, Mapping) and str(mount.get("mountPath", "")).rstrip("/") in _MOUNTS:
                message = "the operator mounts something there"
                yield Problem(field=f"{path}[{name}].volumeMounts[{mount['mountPath']}]", message=message)
