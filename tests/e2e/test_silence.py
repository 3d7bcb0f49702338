"""The monitor hears nothing for a minute: silence is never a breach, and no breach is missed."""

import time

import pytest
from tests.support.kube import wait_for
from tests.support.run import Run

pytestmark = [pytest.mark.cluster, pytest.mark.e2e]

SILENT_SECONDS = 60


@pytest.mark.slow
def test_silence_while_all_is_well(minimal: Run) -> None:
    minimal.spec["training"]["totalSteps"] = 120
    minimal.spec["guardrails"] = [
        {"name": "kl", "conditions": [{"metric": "kl", "above": 50.0}], "forSteps": 3, "action": "Rollback"}
    ]
    minimal.apply()
    minimal.wait_for_step(3)
    with minimal.frozen("ppojob-monitor"):
        began = time.monotonic()
        minimal.wait(
            "Inconclusive", lambda status: status["guardrails"][0]["verdict"] == "Inconclusive", SILENT_SECONDS
        )
        assert minimal.condition("Healthy")["status"] == "Unknown"
        print(f"Inconclusive after {time.monotonic() - began:.0f} s")
        wait_for("a whole minute of silence", lambda: time.monotonic() - began > SILENT_SECONDS, seconds=90)
    status = minimal.wait("Healthy again", lambda _: minimal.condition("Healthy").get("reason") == "Healthy")
    assert (status["rollbacks"], status["restarts"], status["attempt"]["number"]) == (0, 0, 1)
    minimal.kube.kubectl("delete", "ppojobs.rlhf.dev", minimal.name, "-n", minimal.namespace, "--wait", "--timeout=60s")


@pytest.mark.slow
def test_silence_while_it_goes_bad(rollback: Run) -> None:
    rollback.apply()
    rollback.wait("a confirmed checkpoint", lambda status: status.get("checkpoints", {}).get("confirmed"))
    with rollback.frozen("ppojob-monitor"):
        outcome = rollback.layout.attempt(1).outcome
        wait_for("the unseen end of attempt 1", outcome.exists, seconds=300)
        assert rollback.status["rollbacks"] == 0
    status = rollback.wait_for_step(1, attempt=2)
    assert (status["phase"], status["rollbacks"], status["restarts"]) == ("Running", 1, 0)
