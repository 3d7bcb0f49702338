"""A bad run under a dry-run guardrail and one by PromQL that pauses it; then a person goes on."""

import pytest
from tests.support.kube import wait_for
from tests.support.run import Run

from ppojob_contract.journal import RowKind

pytestmark = [pytest.mark.cluster, pytest.mark.e2e]


def test_guardrails(rollback: Run) -> None:
    labels = f'namespace="{rollback.namespace}",ppojob="{rollback.name}"'
    (guardrail,) = rollback.spec["guardrails"]
    query = {"promql": f"max(ppojob_kl{{{labels}}})", "above": 0.3}
    rollback.spec["guardrails"] = [
        guardrail | {"dryRun": True},
        {
            "name": "far",
            "conditions": [query, {"metric": "rewardMean", "below": 2.0}],
            "forSteps": 2,
            "action": "Pause",
        },
    ]
    rollback.apply()
    status = rollback.wait("the pause", lambda status: status.get("phase") == "Suspended")
    _check_pause(rollback, status)
    series = f'ppojob_guardrail_verdict{{{labels},guardrail="kl",action="Rollback",dry_run="true"}}'
    assert rollback.kube.values(f"max_over_time(({series} == 1)[10m:2s])") == [1], "Breached at some time"
    rollback.patch({"suspend": True, "guardrails": []})
    rollback.wait("a person's word", lambda status: status["pausedBy"].get("released"))
    rollback.patch({"suspend": False})
    status = rollback.wait_for_step(1, attempt=2)
    assert status["attempt"]["resume"] == {"attempt": 1, "step": rollback.journal(1)[-1].step}
    assert "pausedBy" not in status


def _check_pause(run: Run, status: dict) -> None:  # type: ignore[type-arg]
    assert (status["pausedBy"]["guardrail"], status["rollbacks"]) == ("far", 0)
    assert "spec.suspend" in status["message"]
    reasons = run.reasons()
    assert {"RollbackDryRun", "Pausing", "Suspended"} <= set(reasons)
    assert "RollbackStarted" not in reasons
    wait_for("the devices", lambda: not run.kube.items("pods", run.namespace), seconds=60)
    bad = [row.step for row in run.journal(1) if row.kind is RowKind.STEP and row.figures["kl"] > 0.3]
    told = next(item for item in status["guardrails"] if item["name"] == "far")
    print(
        f"kl above 0.3 from step {bad[0]}; paused for step {status['pausedBy']['step']}; stopped at {bad[-1]}: {told}"
    )
    assert status["pausedBy"]["step"] >= bad[0]
