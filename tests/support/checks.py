"""`trainer-image/checks` in a pod of the trainer image: real verl, no operator, no PPOJob."""

from __future__ import annotations

from collections.abc import Sequence

import yaml
from tests.cluster import images
from tests.support.kube import REPOSITORY, Kube, TookTooLong, wait_for

CHECKS = REPOSITORY / "trainer-image" / "checks"
POD = "checks"
_RAY = "ray start --head --num-cpus=16 --num-gpus=2 --disable-usage-stats > /tmp/ray.log 2>&1 || cat /tmp/ray.log"


def run(kube: Kube, namespace: str, scenarios: Sequence[str], *, seconds: float) -> str:
    """Runs them one after another; their output. Raises AssertionError with the logs where one fails."""
    files = {path.name: path.read_text() for path in CHECKS.glob("*.py")}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": POD}, "data": files}
    kube.apply(yaml.safe_dump_all([config, _pod(kube, scenarios)]), namespace)
    phase = wait_for("the checks", lambda: _ended(kube, namespace), seconds=seconds)
    output: str = kube.kubectl("logs", POD, "--namespace", namespace)
    assert phase == "Succeeded", output
    return output


def _ended(kube: Kube, namespace: str) -> str | None:
    pod = kube.get("pod", POD, namespace) or {}
    phase = pod.get("status", {}).get("phase")
    return phase if phase in {"Succeeded", "Failed"} else None


def _pod(kube: Kube, scenarios: Sequence[str]) -> dict[str, object]:
    # What failed says where its log is; the log goes with the pod, so it is shown here.
    show = 'tail -n 60 "$(ls -t /out/*/*.log /out/*/*/*.log 2> /dev/null | head -n 1)"; exit 1'
    train = f"python /checks/scenarios.py /out {' '.join(scenarios)} || {{ {show}; }}"
    container = {
        "name": "trainer",
        "image": images.project_image(kube.paths, "trainer-cpu"),
        "command": ["bash", "-c", f"{_RAY}; {train}"],
        "env": [{"name": "PYTHONPATH", "value": "/checks"}],
        "resources": {"requests": {"cpu": "500m", "memory": "4Gi"}, "limits": {"memory": "8Gi"}},
        "volumeMounts": [
            {"name": "checks", "mountPath": "/checks"},
            {"name": "run", "mountPath": "/ppojob/run"},
            {"name": "out", "mountPath": "/out"},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
    }
    volumes = [
        {"name": "checks", "configMap": {"name": POD}},
        {"name": "run", "emptyDir": {}},
        {"name": "out", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}},
    ]
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "securityContext": {"fsGroup": 1000},
        "containers": [container],
        "volumes": volumes,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD}, "spec": spec}


__all__ = ["TookTooLong", "run"]
