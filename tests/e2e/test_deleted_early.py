"""A job that is deleted while its pods have hardly begun gives its devices back at once, not after the grace period."""

import time

import pytest
from tests.support.kube import wait_for
from tests.support.run import Run

pytestmark = [pytest.mark.cluster, pytest.mark.e2e]

AT_ONCE_SECONDS = 30
"""Of a grace of 330. Measured: 3 to 5 s."""


def begun(run: Run, pods: int) -> bool:
    """Whether all pods have a container that runs: the head's monitor, a worker's wait for the head."""
    found = run.kube.items("pods", run.namespace)
    states = [[item["state"] for item in pod["status"].get("initContainerStatuses", [])] for pod in found]
    return len(found) == pods and all(any("running" in state for state in pod) for pod in states)


@pytest.mark.parametrize(("nodes", "pods"), [(1, 1), (2, 3)])
def test_deleted_early(minimal: Run, nodes: int, pods: int) -> None:
    minimal.spec["cluster"]["nodes"] = nodes
    minimal.apply()
    wait_for("the pods", lambda: begun(minimal, pods), seconds=120, every=0.1)
    began = time.monotonic()
    minimal.kube.kubectl("delete", "ppojobs.rlhf.dev", minimal.name, "-n", minimal.namespace, "--wait=false")
    wait_for("the end", lambda: not minimal.kube.items("pods", minimal.namespace), seconds=AT_ONCE_SECONDS, every=0.2)
    print(f"{pods} pods were gone {time.monotonic() - began:.1f} s after the deletion")
