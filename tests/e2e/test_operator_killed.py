"""The operator's pod is killed in four places of one run with a cold rollback; it ends as if nothing had happened.

Admission policies hold the operator at the two places that are too short to be met by chance.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.support.kube import SYSTEM, Kube, wait_for
from tests.support.run import Run

pytestmark = [pytest.mark.cluster, pytest.mark.e2e]


@contextmanager
def denied(kube: Kube, operation: str, namespace: str) -> Iterator[None]:
    """Nobody may create (or delete) RayJobs of the namespace."""
    name = f"ppojob-test-{operation.lower()}"
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": ["ray.io"],
                        "apiVersions": ["*"],
                        "operations": [operation],
                        "resources": ["rayjobs"],
                    }
                ]
            },
            "validations": [{"expression": f"request.namespace != '{namespace}'", "message": "held by a test"}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    kube.kubectl.apply_objects([policy, binding])
    try:
        yield
    finally:
        kube.kubectl("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", name)


def kill_operator(kube: Kube) -> None:
    """Kills the pod at once and waits for another one."""
    selector = "app.kubernetes.io/name=ppojob-operator"
    old = {item["metadata"]["name"] for item in kube.items("pods", SYSTEM, selector)}
    kube.kubectl("delete", "pods", "--namespace", SYSTEM, "--selector", selector, "--force", "--grace-period=0")

    def replaced() -> bool:
        pods = kube.items("pods", SYSTEM, selector)
        return any(
            item["metadata"]["name"] not in old
            and any(c["type"] == "Ready" and c["status"] == "True" for c in item["status"].get("conditions", []))
            for item in pods
        )

    wait_for("another operator pod", replaced, seconds=120)


@pytest.mark.slow
def test_operator_killed(kube: Kube, rollback: Run) -> None:
    rollback.spec["rollback"]["path"] = "Cold"
    rollback.apply()
    rollback.wait("provisioning", lambda status: status.get("phase") == "Provisioning")
    kill_operator(kube)

    rollback.wait_for_step(4)
    kill_operator(kube)

    with denied(kube, "DELETE", rollback.namespace):
        rollback.wait("the intent", lambda status: status.get("intent", {}).get("kind") == "Rollback")
        kill_operator(kube)
        assert rollback.status["intent"]["kind"] == "Rollback", "recorded, and not carried out"
        assert len(kube.items("rayjobs", rollback.namespace)) == 1

    with denied(kube, "CREATE", rollback.namespace):
        wait_for("the old RayJob is gone", lambda: not kube.items("rayjobs", rollback.namespace), seconds=300)
        kill_operator(kube)

    status = rollback.wait_for_end()
    assert (status["phase"], status["rollbacks"], status["restarts"]) == ("Succeeded", 1, 0)
    assert status["attempt"]["number"] == 2
    assert rollback.layout.attempts() == [1, 2]
    assert rollback.reasons().count("RollbackStarted") == 1, json.dumps(rollback.reasons())
