"""A name of 63 characters, and edits that must wait for the old driver."""

import pytest
from tests.support.kube import Kube
from tests.support.run import Run

from ppojob_contract.journal import RowKind

pytestmark = [pytest.mark.cluster, pytest.mark.e2e]

SLOW_REWARD = """
import pathlib, time

def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    if pathlib.Path("/ppojob/storage/slow").exists():
        time.sleep(15)
    return 0.5
"""


def test_slow_stop(kube: Kube, minimal: Run) -> None:
    """With a trainer that takes 15 s to stop, the next attempt starts after it is gone."""
    name = ("a-name-of-sixty-three-characters-" * 2)[:62] + "x"
    job = next(item for item in minimal.objects if item["kind"] == "PPOJob")
    job["metadata"]["name"] = name
    run = Run(kube, minimal.namespace, name, minimal.objects)
    kube.kubectl("create", "configmap", "slow", "-n", run.namespace, f"--from-literal=reward.py={SLOW_REWARD}")
    run.spec["reward"]["terms"] = [{"name": "slow", "function": {"configMap": "slow"}}]
    run.spec["training"]["totalSteps"] = 40
    run.apply()
    run.wait_for_step(3)
    layout = run.layout
    (layout.root.parents[1] / "slow").touch()
    run.patch({"training": {"learningRate": 5e-5}})
    run.wait("the intent", lambda status: status.get("intent", {}).get("kind") == "SpecChange")
    run.wait("attempt 2", lambda status: status["attempt"]["number"] == 2)
    (layout.root.parents[1] / "slow").unlink()
    status = run.wait_for_end()
    assert (status["phase"], status["attempt"]["number"], status["restarts"]) == ("Succeeded", 2, 0)
    first, second = layout.attempt(1), layout.attempt(2)
    stopped, started = first.outcome.stat().st_mtime, second.started.stat().st_mtime
    last_row = [row for row in run.journal(1) if row.kind is RowKind.STEP][-1]
    assert stopped < started, "the drivers overlap"
    assert first.journal.stat().st_mtime < started
    assert first.saved_steps()[-1] == last_row.step, "a graceful stop saves the last step"
    print(
        f"asked to stop, it took {stopped - first.command.stat().st_mtime:.1f} s; then {started - stopped:.1f} s more"
    )
    assert stopped - first.command.stat().st_mtime > 10, "it was slow to stop"
