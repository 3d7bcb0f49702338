"""Pod templates of the Ray cluster: the Ray container, and in the head pod the monitor."""

import json
from typing import Any, cast

from ppojob_contract import names as contract
from ppojob_operator.api.v1alpha1.spec import PPOJobSpec, Resources
from ppojob_operator.domain import effective
from ppojob_operator.domain.functions import function_folders
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.errors import PPOJobError
from ppojob_operator.render import names, objects
from ppojob_operator.render.overlay import lay_over
from ppojob_operator.render.settings import RenderSettings

RAY_CONTAINER = "ray"
MONITOR_CONTAINER = "monitor"

_STOP_MARGIN_SECONDS = 15
_IMAGE_GROUP = 1000
"""As trainer-image/Dockerfile has it."""

_END_MARGIN_SECONDS = 30

_SHARED_MEMORY = {"name": "shared-memory", "mountPath": "/dev/shm"}  # noqa: S108 (a mount of the pod)
_STORAGE = {"name": "storage", "mountPath": contract.STORAGE_MOUNT}
_RUN = {"name": "run", "mountPath": contract.RUN_MOUNT}
_TOKEN = {"name": "token", "mountPath": contract.TOKEN_MOUNT, "readOnly": True}

_CONFINED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


class NoImage(PPOJobError):
    """Neither the spec nor the operator's settings name a trainer image for the device (acceptance refuses such)."""


def head_template(job: AcceptedJob, settings: RenderSettings, *, with_devices: bool) -> dict[str, Any]:
    """The pod with Ray's head, the driver and the monitor. Raises NoImage."""
    ray = _ray_container(job, settings, _resources(job.spec, with_devices=with_devices), _HEAD_PROBES)
    ray["ports"] = [
        {"name": "gcs", "containerPort": 6379},
        {"name": "dashboard", "containerPort": 8265},
        {"name": "client", "containerPort": 10001},
    ]
    ray["volumeMounts"].append(_RUN)
    spec = {
        # A restarted Ray container would be an empty cluster in a pod that looks the same.
        "restartPolicy": "Never",
        "initContainers": [_monitor_container(job, settings)],
        "containers": [ray],
        "volumes": [*_volumes(job), {"name": "run", "emptyDir": {}}, _token_volume(job)],
    }
    return _template(job, "head", spec, job.spec.cluster.pod_template, _scraping(settings))


def worker_template(job: AcceptedJob, settings: RenderSettings) -> dict[str, Any]:
    """A pod with devices beside a head without. Raises NoImage."""
    ray = _ray_container(job, settings, _resources(job.spec, with_devices=True), _WORKER_PROBES)
    spec = {
        "restartPolicy": "Never",
        # The shell of KubeRay's init container, which waits for the head, would as PID 1 never end by SIGTERM, and the
        # pod keep its devices until the grace period is over. Not in the head pod: there the trainer, which runs users'
        # code, could read the monitor's token through /proc.
        "shareProcessNamespace": True,
        "containers": [ray],
        "volumes": _volumes(job),
    }
    return _template(job, "worker", spec, _without_monitor(job.spec.cluster.pod_template))


def _template(
    job: AcceptedJob,
    component: str,
    pod: dict[str, Any],
    overlay: dict[str, Any],
    annotations: dict[str, str] | None = None,
) -> dict[str, Any]:
    cluster = job.spec.cluster
    common: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": job.spec.graceful_stop_seconds + _END_MARGIN_SECONDS,
        # A fresh volume belongs to root; the images run as this group.
        "securityContext": {
            "seccompProfile": {"type": "RuntimeDefault"},
            "fsGroup": _IMAGE_GROUP,
            "fsGroupChangePolicy": "OnRootMismatch",
        },
    }
    optional = {
        "imagePullSecrets": [{"name": secret.name} for secret in job.spec.trainer.image_pull_secrets],
        "nodeSelector": dict(cluster.node_selector),
        "tolerations": [item.model_dump(by_alias=True, exclude_none=True) for item in cluster.tolerations],
        "priorityClassName": cluster.priority_class_name,
    }
    spec = common | {key: value for key, value in optional.items() if value} | pod
    metadata = {"labels": objects.labels(job, component), **({"annotations": annotations} if annotations else {})}
    template = lay_over({"metadata": metadata, "spec": spec}, overlay)
    # A copy as plain JSON data, since parts are constants of this module and callers may change what they get.
    return cast("dict[str, Any]", json.loads(json.dumps(template)))


def _scraping(settings: RenderSettings) -> dict[str, str]:
    port = str(contract.MONITOR_PORT)
    keys = {"scrape": "true", "port": port, "path": "/metrics"} if settings.scrape_annotations else {}
    return {f"prometheus.io/{key}": value for key, value in keys.items()}


def _ray_container(
    job: AcceptedJob, settings: RenderSettings, resources: dict[str, Any], probes: dict[str, Any]
) -> dict[str, Any]:
    stop_wait = job.spec.graceful_stop_seconds + _STOP_MARGIN_SECONDS
    ray = {
        "RAY_USAGE_STATS_ENABLED": "0",
        # Ray would wait up to 30 s for replicas of Ray Serve to move away (its `_private/node.py`), out of the grace.
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
        "RAY_JOB_STOP_WAIT_TIME_S": str(stop_wait),
        contract.ENV_STOP_SECONDS: str(job.spec.graceful_stop_seconds),
    }
    judge = _judge_key(job.spec)
    # Kubernetes would replace $(NAME) in a value.
    user = [{"name": item.name, "value": item.value.replace("$(", "$$(")} for item in job.spec.trainer.env]
    return {
        "name": RAY_CONTAINER,
        **_image(job.spec, settings),
        "env": [*_environment(job), *({"name": name, "value": value} for name, value in ray.items()), *judge, *user],
        "resources": resources,
        "lifecycle": {"preStop": {"exec": {"command": [contract.STOP_COMMAND]}}},
        **probes,
        "securityContext": _CONFINED,
        "volumeMounts": [_SHARED_MEMORY, _STORAGE, *_function_mounts(job.spec)],
    }


def _judge_key(spec: PPOJobSpec) -> list[dict[str, Any]]:
    """The judge's key is never in a RayJob, which more people may read than Secrets."""
    endpoint = spec.evaluation.judge.endpoint if spec.evaluation else None
    secret = endpoint.api_key_secret if endpoint else None
    if secret is None:
        return []
    return [{"name": contract.ENV_JUDGE_KEY, "valueFrom": {"secretKeyRef": {"name": secret.name, "key": secret.key}}}]


def _monitor_container(job: AcceptedJob, settings: RenderSettings) -> dict[str, Any]:
    """A native sidecar: up before Ray and still there when Ray ends. Without a readiness probe, because a monitor
    that is away must not make a training pod unready.
    """
    return {
        "name": MONITOR_CONTAINER,
        **_image(job.spec, settings),
        "restartPolicy": "Always",
        "command": [contract.MONITOR_COMMAND],
        "env": _environment(job),
        "ports": [{"name": contract.MONITOR_PORT_NAME, "containerPort": contract.MONITOR_PORT}],
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": contract.MONITOR_PORT_NAME},
            "initialDelaySeconds": 60,
            "periodSeconds": 20,
            "timeoutSeconds": 10,
            "failureThreshold": 6,
        },
        "resources": dict(settings.monitor_resources),
        "securityContext": _CONFINED,
        "volumeMounts": [_STORAGE, _RUN, _TOKEN],
    }


def _image(spec: PPOJobSpec, settings: RenderSettings) -> dict[str, str]:
    image = spec.trainer.image or settings.images.get(spec.cluster.device)
    if image is None:
        raise NoImage(f"no trainer image for device {spec.cluster.device}")
    return {"image": image, "imagePullPolicy": (spec.trainer.image_pull_policy or settings.image_pull_policy).value}


def _environment(job: AcceptedJob) -> list[dict[str, Any]]:
    return [
        {"name": contract.ENV_NAMESPACE, "value": job.namespace},
        {"name": contract.ENV_NAME, "value": job.name},
        {"name": contract.ENV_UID, "value": job.uid},
        {"name": contract.ENV_JOB_ROOT, "value": job.root},
        {"name": contract.ENV_POD_UID, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
    ]


def _resources(spec: PPOJobSpec, *, with_devices: bool) -> dict[str, Any]:
    chosen: Resources = spec.cluster.resources if with_devices else spec.cluster.head_resources
    device = effective.resource_name(spec) if with_devices else None
    # Equal limits and requests, as extended resources must have.
    devices = {device: str(spec.cluster.devices_per_node)} if device else {}
    resources = {"requests": dict(chosen.requests) | devices, "limits": dict(chosen.limits) | devices}
    return {key: value for key, value in resources.items() if value}


def _volumes(job: AcceptedJob) -> list[dict[str, Any]]:
    shared = {"medium": "Memory", "sizeLimit": job.spec.cluster.shared_memory}
    functions = [
        {"name": f"function-{index}", "configMap": {"name": config_map}}
        for index, (_, config_map) in enumerate(function_folders(job.spec))
    ]
    claim = {"claimName": job.spec.storage.claim_name}
    return [
        {"name": "shared-memory", "emptyDir": shared},
        {"name": "storage", "persistentVolumeClaim": claim},
        *functions,
    ]


def _function_mounts(spec: PPOJobSpec) -> list[dict[str, Any]]:
    return [
        {"name": f"function-{index}", "mountPath": folder, "readOnly": True}
        for index, (folder, _) in enumerate(function_folders(spec))
    ]


def _token_volume(job: AcceptedJob) -> dict[str, Any]:
    secret = names.secret_name(names.base(job.name, job.uid))
    return {"name": "token", "secret": {"secretName": secret}}


def _without_monitor(overlay: dict[str, Any]) -> dict[str, Any]:
    """Only the head has a monitor to lay something over."""
    pod = overlay.get("spec") or {}
    kept = [item for item in pod.get("initContainers", ()) if item.get("name") != MONITOR_CONTAINER]
    if "initContainers" not in pod:
        return overlay
    return {**overlay, "spec": {key: value for key, value in pod.items() if key != "initContainers"} | _init(kept)}


def _init(containers: list[Any]) -> dict[str, Any]:
    return {"initContainers": containers} if containers else {}


def _port_probes(live: int, ready: int, failures: int) -> dict[str, Any]:
    """A connection by the kubelet costs nothing; KubeRay's own probes would start a shell and wget every few seconds.

    A probe that fails ends the pod and with it the attempt, so it is patient: a busy Ray is not a dead one.
    """
    return {
        "livenessProbe": {
            "tcpSocket": {"port": live},
            "initialDelaySeconds": 60,
            "periodSeconds": 15,
            "timeoutSeconds": 10,
            "failureThreshold": failures,
        },
        "readinessProbe": {
            "tcpSocket": {"port": ready},
            "periodSeconds": 2,
            "timeoutSeconds": 5,
            "failureThreshold": 15,
        },
    }


_HEAD_PROBES = _port_probes(live=6379, ready=8265, failures=20)
"""GCS; the dashboard, which takes submitted jobs."""

_WORKER_PROBES = _port_probes(live=52365, ready=52365, failures=40)
"""Ray's agent on the node, which falls with the raylet."""
