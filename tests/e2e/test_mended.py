"""What comes after training and cannot be done: found before training where it can be, taken up again where not."""

import pytest
from tests.support.kube import wait_for
from tests.support.run import Run

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_an_export_to_a_folder_that_is_taken_ends_before_the_first_step(minimal: Run) -> None:
    run = minimal
    run.apply_claim()
    (run.volume / "mine").mkdir()
    run.spec["export"] = {"path": "mine"}
    run.apply()
    status, message = run.wait_for_failure("DataError")
    assert "spec.export.path: /ppojob/storage/mine is there" in message
    assert "firstStep" not in status["attempt"]


def test_a_judge_that_was_down_is_replaced_and_the_job_goes_on(minimal: Run) -> None:
    run = minimal
    run.spec["training"]["totalSteps"] = 3
    run.spec["failurePolicy"] = {"maxRestarts": 0}
    run.spec["evaluation"] = {
        "judge": {"endpoint": {"url": "http://127.0.0.1:9/v1", "model": "judge", "timeoutSeconds": 2}},
        "maxPrompts": 8,
    }
    run.spec["export"] = {"path": "exported"}
    run.apply()
    status, _ = run.wait_for_failure("Communication")
    assert "does not answer before training" in (run.layout.attempt(1).folder / "driver.log").read_text()
    run.patch({"evaluation": {"judge": {"endpoint": None, "term": "digits"}}})
    wait_for("the job's being taken up", lambda: not run.status.get("finished"), seconds=60)
    status = run.wait_for_end()
    assert status["phase"] == "Succeeded", status
    assert status["attempt"]["number"] == 1
    told = {item["name"]: (item["phase"], item["run"]) for item in status["stages"]}
    assert told == {"Evaluate": ("Succeeded", 2), "Export": ("Succeeded", 1)}
    assert (run.volume / "exported" / "model.safetensors").is_file()
    assert "TakenUpAgain" in run.reasons()
