"""A pod of the trainer image on a job's claim, for what a test asks of the files there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.cluster import images
from tests.support.kube import wait_for
from tests.support.run import Run


def printed_by_pod(
    run: Run, name: str, command: Sequence[str], env: Mapping[str, str] | None = None, seconds: float = 120
) -> str:
    """Its log, once it has succeeded; AssertionError with the log where it failed. The claim is at /ppojob/storage."""
    claim = {"name": "storage", "persistentVolumeClaim": {"claimName": run.spec["storage"]["claimName"]}}
    container = {
        "name": "main",
        "image": images.project_image(run.kube.paths, "trainer-cpu"),
        "command": list(command),
        "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
        "volumeMounts": [{"name": "storage", "mountPath": "/ppojob/storage"}],
    }
    spec = {"restartPolicy": "Never", "containers": [container], "volumes": [claim]}
    metadata = {"name": name, "namespace": run.namespace}
    run.kube.kubectl.apply_objects([{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}])

    def ended() -> str | None:
        found = run.kube.get("pod", name, run.namespace)
        phase = found["status"]["phase"] if found else ""
        return phase if phase in {"Succeeded", "Failed"} else None

    phase = wait_for(f"the end of pod {name}", ended, seconds=seconds)
    log = run.kube.kubectl("logs", name, "--namespace", run.namespace)
    assert phase == "Succeeded", log
    return log
