"""Events tell what a job waits for and what became of it, without the logs."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.kube import wait_for
from tests.support.run import Run

pytestmark = [pytest.mark.cluster, pytest.mark.e2e]

WAITING: dict[str, tuple[Callable[[dict[str, Any]], object], str, str]] = {
    "claim": (lambda spec: spec["storage"].update(claimName="nobody"), "ClaimNotFound", "'nobody'"),
    "image": (
        lambda spec: spec.update(trainer={"image": "localhost/no-such:1", "imagePullPolicy": "Never"}),
        "ImageNotPulled",
        "ErrImageNeverPull",
    ),
    "devices": (
        lambda spec: spec["cluster"].update(resources={"requests": {"cpu": "1000"}}),
        "Unschedulable",
        "Insufficient cpu",
    ),
}


@pytest.mark.parametrize("case", WAITING)
def test_waiting(minimal: Run, case: str) -> None:
    change, reason, words = WAITING[case]
    change(minimal.spec)
    minimal.apply()

    def told() -> list[dict[str, Any]]:
        return [event for event in minimal.events() if event["reason"] == reason]

    wait_for("the event", told, seconds=90, every=0.5)
    assert words in told()[0]["message"]
    assert (told()[0]["type"], len(told())) == ("Warning", 1)
    assert minimal.condition("ClusterReady")["reason"] == reason


@pytest.mark.slow
def test_a_deleted_head_pod(minimal: Run) -> None:
    minimal.spec["training"]["totalSteps"] = 500
    minimal.apply()
    minimal.wait_for_step(2)
    selector = f"rlhf.dev/job={minimal.name},ray.io/node-type=head"
    minimal.kube.kubectl("delete", "pod", "-n", minimal.namespace, "-l", selector, "--wait=false")
    status = minimal.wait("the restart", lambda status: status.get("attempts"))
    assert status["attempts"][0]["result"] == "HeadLost"
    told = [event["message"] for event in minimal.events() if event["reason"] == "Restarting"]
    assert len(told) == 1
    assert "head pod" in told[0]
