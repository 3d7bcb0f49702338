"""From raw files to an exported model: `examples/pipeline.yaml` with one stage killed; a trial."""

import pytest
from tests.e2e.conftest import example
from tests.support.kube import Kube, wait_for
from tests.support.pipeline import (
    DATA,
    figures_are_in_prometheus,
    fill_raw,
    outputs_are_whole,
    print_stages,
    stages,
    the_exported_model_answers,
)
from tests.support.run import Run

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not DATA.is_dir(), reason="the real data is not beside the project"),
]


@pytest.fixture
def pipeline(kube: Kube, namespace: str) -> Run:
    """The example with its claim filled, not applied yet."""
    run = Run.of(kube, namespace, example("pipeline"))
    run.apply_claim()
    fill_raw(run)
    return run


def test_pipeline(pipeline: Run) -> None:
    run = pipeline
    run.spec["reward"]["terms"][0]["training"]["epochs"] = 12  # long enough to be met in the middle
    run.apply()
    run.wait("the reward model's training", lambda status: "stage Reward is running: " in status.get("message", ""))
    prepared = stages(run)["Prepare"]
    selector = f"rlhf.dev/job={run.name},ray.io/node-type=head"
    run.kube.kubectl("delete", "pod", "-n", run.namespace, "-l", selector, "--wait=false")
    status = run.wait_for_end()
    assert status["phase"] == "Succeeded", status
    seen = stages(run)
    print_stages(run)
    assert [(name, entry["phase"], entry["run"]) for name, entry in seen.items()] == [
        ("Prepare", "Succeeded", 1),
        ("Reward", "Succeeded", 2),
        ("Evaluate", "Succeeded", 1),
        ("Export", "Succeeded", 1),
    ]
    assert seen["Prepare"]["ended"] == prepared["ended"], "what was finished is not done again"
    outputs_are_whole(run)
    figures_are_in_prometheus(run)
    the_exported_model_answers(run)


@pytest.mark.slow
def test_a_reward_model_below_the_minimum_fails_the_job_before_training(pipeline: Run) -> None:
    pipeline.spec["reward"]["terms"][0]["training"]["minimumAccuracy"] = 0.999
    pipeline.apply()
    status, message = pipeline.wait_for_failure("RewardModelTooWeak")
    assert "spec.reward.terms[preference].training.minimumAccuracy" in message
    assert not status.get("attempt")


@pytest.mark.slow
def test_a_lost_gate_fails_the_job_and_a_lower_one_takes_it_up_again(pipeline: Run) -> None:
    run = pipeline
    run.spec["evaluation"]["gate"] = {"minimumWinRate": 0.999}
    run.apply()
    status, _ = run.wait_for_failure("GateFailed")
    assert "Export" not in stages(run)
    ended, attempt = stages(run)["Evaluate"]["ended"], status["attempt"]["number"]
    run.patch({"evaluation": {"gate": {"minimumWinRate": 0.001}}})
    wait_for("the job is taken up again", lambda: run.status["phase"] != "Failed", seconds=60)
    status = run.wait_for_end()
    print_stages(run)
    assert status["phase"] == "Succeeded", status
    assert stages(run)["Evaluate"]["ended"] == ended, "what was finished is not done again"
    assert status["attempt"]["number"] == attempt
    the_exported_model_answers(run)


def test_a_cut_line_is_named(pipeline: Run) -> None:
    path = pipeline.volume / "raw" / "gsm8k-train.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:7], lines[7][:40] + b"\n", *lines[8:]]))
    pipeline.spec["data"]["prepare"]["maxBadRows"] = 0
    pipeline.apply()
    status, message = pipeline.wait_for_failure("DataError")
    assert "gsm8k-train.jsonl line 8: " in message
    assert not status.get("attempt")


@pytest.mark.slow
def test_trial(kube: Kube, namespace: str) -> None:
    """It runs before the job has a cluster, and nothing of it is used by the job."""
    run = Run.of(kube, namespace, example("minimal"))
    run.spec["trial"] = {"steps": 2}
    run.spec["training"]["totalSteps"] = 3
    run.apply()
    run.wait("the trial", lambda status: "is Running" in status.get("message", ""))
    assert not run.status.get("clusterNumber"), "the job's own devices are not asked for yet"
    names = [item["metadata"]["name"] for item in kube.kubectl.read("ppojobs.rlhf.dev", "-n", namespace)["items"]]
    status = run.wait_for_end()
    assert status["phase"] == "Succeeded", status
    (trial,) = [name for name in names if name != run.name]
    print(trial, status["stages"][0]["message"])
    assert (status["stages"][0]["name"], status["stages"][0]["phase"]) == ("Trial", "Succeeded")
    assert "resume" not in status["attempt"]
    assert "source" not in status["attempt"]
