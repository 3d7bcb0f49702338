"""Stages in the monitor's answers and metrics."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from ppojob_contract.durable import write_json, write_json_once
from ppojob_contract.metrics import STAGE_FIGURE
from ppojob_contract.outcomes import ExitClass, Outcome
from ppojob_contract.protocol import State
from ppojob_contract.stages import MAX_FIGURES, Stage, StageLayout, StageResult, StageState
from ppojob_trainer.monitor.exposition import JobCollector
from ppojob_trainer.monitor.job import Identity, Job
from ppojob_trainer.run_files import RunFiles
from ppojob_trainer.stages import outputs


@pytest.fixture
def job(tmp_path: Path) -> Job:
    identity = Identity(namespace="research", name="sums", uid="u", pod_uid="p", root=tmp_path, lock_files=())
    return Job(identity, now=lambda: 2000.0)


def begun(job: Job, stage: Stage, key: str, run: int = 1, *, at: float = 1000.0) -> StageLayout:
    layout = StageLayout.of(job.layout.root, stage, key)
    started = layout.run(run).started
    write_json_once(started, {})
    os.utime(started, (at, at))
    layout.run(run).heartbeat.touch()
    os.utime(layout.run(run).heartbeat, (at + 10, at + 10))
    return layout


def complete(job: Job, stage: Stage, key: str, **figures: float) -> StageLayout:
    layout = begun(job, stage, key)
    outputs.begin(layout, 1)
    (outputs.draft(layout, 1) / "model.safetensors").write_bytes(b"weights")
    outputs.publish(layout, 1, StageResult(message="made", figures=figures))
    return layout


def stages(job: Job) -> tuple[StageState, ...]:
    """As they arrive at the operator."""
    return State.from_json(json.loads(json.dumps(job.state().to_json()))).stages


def series(job: Job) -> dict[tuple[str, str], float]:
    registry = CollectorRegistry()
    registry.register(JobCollector(job))
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (sample.labels["stage"], sample.labels["key"]): sample.value
        for family in families
        if family.name == STAGE_FIGURE.name
        for sample in family.samples
    }


def test_no_stages(job: Job) -> None:
    assert stages(job) == ()
    assert series(job) == {}


def test_a_running_stage(job: Job) -> None:
    layout = begun(job, Stage.REWARD, "abc")
    write_json(layout.run(1).figures, {"loss": 0.5, "accuracy": float("nan")})
    (state,) = stages(job)
    assert (state.stage, state.key, state.run, state.complete, state.outcome) == (Stage.REWARD, "abc", 1, False, None)
    assert state.last_heartbeat_age_seconds == 990.0
    assert state.figures["loss"] == 0.5
    assert series(job)[("Reward", "loss")] == 0.5
    assert set(series(job)) == {("Reward", "loss"), ("Reward", "accuracy")}


def test_a_complete_stage(job: Job) -> None:
    layout = complete(job, Stage.PREPARE, "abc", trainRows=10.0)
    outcome = Outcome(exit_class=ExitClass.SUCCEEDED, message="made", step=0)
    RunFiles(layout.run(1)).finish(outcome)
    (state,) = stages(job)
    assert (state.complete, state.message, state.figures, state.outcome) == (True, "made", {"trainRows": 10.0}, outcome)
    assert series(job) == {("Prepare", "trainRows"): 10.0}


def test_the_newest_run_speaks(job: Job) -> None:
    layout = begun(job, Stage.PREPARE, "abc", 1)
    RunFiles(layout.run(1)).finish(Outcome(exit_class=ExitClass.DATA_ERROR, message="bad", step=0))
    begun(job, Stage.PREPARE, "abc", 2)
    (state,) = stages(job)
    assert (state.run, state.outcome) == (2, None)


@pytest.mark.parametrize("name", ["model.safetensors", "result.json", "manifest.json"])
def test_an_output_that_lacks_a_file_is_not_there(job: Job, name: str) -> None:
    layout = complete(job, Stage.EXPORT, "abc", parameters=1.0)
    (layout.output / name).unlink()
    (state,) = stages(job)
    assert not state.complete
    assert not state.figures


@pytest.mark.parametrize("text", ["", "{", "[1]", "null"])
def test_files_that_cannot_be_read_stop_nobody(job: Job, text: str) -> None:
    layout = complete(job, Stage.EXPORT, "abc")
    layout.result.write_text(text)
    (layout.output / "manifest.json").write_text(text)
    begun(job, Stage.REWARD, "abc").run(1).figures.write_text(text)
    assert [(state.complete, state.figures) for state in stages(job)] == [(False, {}), (False, {})]


def test_of_several_keys_the_last_begun_is_in_the_metrics(job: Job) -> None:
    for key, at in (("aaa", 3000.0), ("bbb", 1000.0), ("ccc", 2000.0)):
        layout = begun(job, Stage.REWARD, key, at=at)
        write_json(layout.run(1).figures, {"loss": at})
    assert {state.key for state in stages(job)} == {"aaa", "bbb", "ccc"}
    assert series(job) == {("Reward", "loss"): 3000.0}


def test_figures_are_bounded(job: Job) -> None:
    for stage in Stage:
        layout = begun(job, stage, "abc")
        values: dict[str, Any] = {f"winRate/{number}": number for number in range(MAX_FIGURES * 2)}
        write_json(layout.run(1).figures, values)
    assert len(series(job)) == STAGE_FIGURE.combinations
