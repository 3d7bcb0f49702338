"""What is rendered, at a real API server with KubeRay's definitions: nothing is dropped, and the pods are valid."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.kubectl import Kubectl
from tests.support.builders import UID, spec
from tests.support.examples import NAMES, accepted
from tests.support.kube import Kube

from ppojob_operator.codegen.pod_fields import module
from ppojob_operator.domain import pod_fields
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.render.raycluster import render_cluster
from ppojob_operator.render.rayjob import render_attempt
from ppojob_operator.render.secret import render_token_secret
from ppojob_operator.render.settings import RenderSettings

pytestmark = pytest.mark.cluster

SETTINGS = RenderSettings()
NAMESPACE = "default"

OVERLAY = {
    "metadata": {"annotations": {"note": "x"}},
    "spec": {
        "containers": [{"name": "ray", "env": [{"name": "NCCL_DEBUG", "value": "INFO"}]}],
        "hostNetwork": False,
    },
}


@pytest.fixture(scope="module")
def kubectl() -> Kubectl:
    return Kube.connect().kubectl


def jobs() -> dict[str, AcceptedJob]:
    nodes = {"nodes": 2, "devicesPerNode": 8, "podTemplate": OVERLAY, "tolerations": [{"operator": "Exists"}]}
    terms = {"terms": [{"name": "mine", "function": {"configMap": "rewards"}}]}
    large = spec(cluster=nodes, reward=terms, trainer={"imagePullSecrets": [{"name": "registry"}]})
    found = {name: accepted(name) for name in NAMES}
    return found | {
        "nodes": AcceptedJob(namespace="x", name="n" * 63, uid=UID, generation=1, spec=large),
    }


def try_out(kubectl: Kubectl, manifest: dict[str, Any]) -> dict[str, Any]:
    """The object as it would be stored; an unknown field is an error."""
    manifest["metadata"]["namespace"] = NAMESPACE
    command = ("create", "--dry-run=server", "--validate=strict", "-o", "json", "-f", "-")
    stored: dict[str, Any] = json.loads(kubectl(*command, stdin=json.dumps(manifest)))
    return stored


@pytest.mark.parametrize("name", jobs())
def test_the_api_server_takes_it_as_it_is(kubectl: Kubectl, name: str) -> None:
    job = jobs()[name]
    attempt = render_attempt(job, cluster_number=1, attempt=1, resume=None, adjustments=())
    for manifest in (render_cluster(job, 1, SETTINGS), attempt, render_token_secret(job, "t")):
        stored = try_out(kubectl, manifest)
        if "spec" in manifest:
            assert contains(stored["spec"], manifest["spec"])


@pytest.mark.parametrize("name", jobs())
def test_its_pods_are_valid(kubectl: Kubectl, name: str) -> None:
    """KubeRay adds commands and environment; what it makes pods from must be valid by itself."""
    cluster = render_cluster(jobs()[name], 1, SETTINGS)["spec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        template = group["template"]
        metadata = {**template["metadata"], "name": "pod"}
        pod = try_out(kubectl, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
        assert contains(pod["spec"], {"containers": template["spec"]["containers"]})


def test_the_known_fields_of_pods_are_the_api_servers(kubectl: Kubectl) -> None:
    openapi = json.loads(kubectl("get", "--raw", "/openapi/v3/api/v1"))
    version = openapi["info"]["version"]
    if f"Kubernetes {version}," not in (pod_fields.__doc__ or ""):
        pytest.skip(f"the fields were taken from another version than this server's {version}")
    assert Path(pod_fields.__file__).read_text(encoding="utf-8") == module(openapi)


def contains(stored: Any, meant: Any) -> bool:
    """Whether all of `meant` is in what is stored, whatever the server added."""
    if isinstance(meant, dict):
        return isinstance(stored, dict) and all(key in stored and contains(stored[key], meant[key]) for key in meant)
    if isinstance(meant, list):
        return (
            isinstance(stored, list)
            and len(stored) == len(meant)
            and all(contains(one, other) for one, other in zip(stored, meant, strict=True))
        )
    return bool(stored == meant)
