"""A driver that is slow to stop, of a job with the longest name: the next attempt starts when it is gone."""

import pytest
from tests.support.kube import wait_for
from tests.support.run import Run

from ppojob_contract.journal import RowKind

pytestmark = [pytest.mark.cluster, pytest.mark.e2e]

SLOW_SECONDS = 15


@pytest.mark.slow
def test_slow_stop(minimal: Run) -> None:
    run = minimal.named(("a-name-of-sixty-three-characters-" * 2)[:62] + "x")
    run.spec["training"]["totalSteps"] = 40
    run.apply()
    run.wait_for_step(3)
    first, second = run.layout.attempt(1), run.layout.attempt(2)
    with run.frozen("ppojob-train"):
        run.patch({"training": {"learningRate": 5e-5}})
        wait_for("the command", first.command.exists, seconds=60, every=0.2)
        with pytest.raises(AssertionError):
            wait_for("a second attempt", second.started.exists, seconds=SLOW_SECONDS)
        assert run.status["attempt"]["number"] == 1
        assert len(run.kube.items("rayjobs", run.namespace)) == 1
    status = run.wait_for_step(1, attempt=2)
    assert (status["phase"], status["rollbacks"], status["restarts"]) == ("Running", 0, 0)
    asked, stopped = first.command.stat().st_mtime, first.outcome.stat().st_mtime
    started = second.started.stat().st_mtime
    print(f"stopping took {stopped - asked:.1f} s, the next start {started - stopped:.1f} s more")
    assert stopped - asked >= SLOW_SECONDS
    assert first.journal.stat().st_mtime < stopped < started, "the drivers overlap"
    last_row = [row for row in run.journal(1) if row.kind is RowKind.STEP][-1]
    assert first.saved_steps()[-1] == last_row.step, "a graceful stop saves the last step"
    assert status["attempt"]["resume"] == {"attempt": 1, "step": last_row.step}
    _cluster_deleted_by_hand(run)


def _cluster_deleted_by_hand(run: Run) -> None:
    """`kubectl delete raycluster` deletes in the background: the object goes at once, its pod when it has ended."""
    clusters = run.kube.items("rayclusters", run.namespace)
    pods = {item["metadata"]["uid"] for item in run.kube.items("pods", run.namespace)}
    third = run.layout.attempt(3)
    with run.frozen("ppojob-train"):
        run.kube.kubectl("delete", "raycluster", clusters[0]["metadata"]["name"], "-n", run.namespace, "--wait=false")
        run.wait("the wait for the old pod", lambda status: "earlier RayCluster" in status.get("message", ""), 60)
        with pytest.raises(AssertionError):
            wait_for("a cluster", lambda: run.kube.items("rayclusters", run.namespace), seconds=SLOW_SECONDS)
    run.wait("attempt 3", lambda status: status["attempt"]["number"] == 3)
    left = {item["metadata"]["uid"] for item in run.kube.items("pods", run.namespace)}
    assert not pods & left, "the old pod has ended before the next attempt"
    assert run.layout.attempt(2).outcome.exists()
    wait_for("its start", third.started.exists, seconds=120)
    assert run.layout.attempt(2).outcome.stat().st_mtime < third.started.stat().st_mtime
