"""KL runs away, the run goes back to a confirmed checkpoint, finishes: asserted from outside, and by the dashboards."""

import copy
import itertools
import json
import time
from datetime import datetime
from typing import Any

import pytest
from tests.support import monitoring
from tests.support.kube import wait_for
from tests.support.run import Run

from ppojob_contract.durable import read_json
from ppojob_contract.journal import RowKind
from ppojob_contract.manifest import NAME, Manifest, problems
from ppojob_operator.domain.carry_out import LINGER

pytestmark = [pytest.mark.cluster, pytest.mark.e2e]


def clusters(run: Run) -> list[str]:
    return [item["metadata"]["uid"] for item in run.kube.items("rayclusters", run.namespace)]


def test_rollback(rollback: Run) -> None:
    monitoring.prepare(rollback)
    begin = time.time()
    rollback.apply()
    rollback.wait_for_step(1)
    before = clusters(rollback)
    assert len(before) == 1
    rollback.wait_for_step(1, attempt=2)
    assert clusters(rollback) == before, "the RayCluster survives the rollback"
    jobs = [item["metadata"]["name"] for item in rollback.kube.items("rayjobs", rollback.namespace)]
    assert [name.rsplit("-", 1)[1] for name in jobs] == ["a1"], "and so does the trainer"
    _check_handover(rollback)
    status, end = rollback.wait_for_end(), time.time()
    assert (status["phase"], status["attempt"]["number"], status["rollbacks"]) == ("Succeeded", 2, 1)
    assert _seconds(status["progress"]["lastStepTime"], status["finished"]) < LINGER.total_seconds() + 20
    target = status["attempt"]["resume"]
    _check_files(rollback, target["step"], status)
    _check_prometheus(rollback, target["step"])
    _check_retention(rollback, target["step"])
    _check_data(rollback, target["step"], status)
    _check_story(rollback)
    _check_heir(rollback)
    monitoring.check(rollback, begin, end)


def _check_handover(run: Run) -> None:
    """Who did what, as the claim tells it."""
    first = run.layout.attempt(1)
    command, claim, ack = read_json(first.command), read_json(first.claim), read_json(first.ack)
    assert (command["kind"], claim["by"], ack["result"]) == ("Rollback", "Trainer", "Done")
    assert command["id"] == claim["id"] == ack["id"]
    took = ack["time"] - first.command.stat().st_mtime
    breach = next(row for row in run.journal(1) if row.kind is RowKind.STEP and row.step == run.status["rollbackMark"])
    step = next(row for row in run.journal(2) if row.kind is RowKind.STEP)
    print(
        f"breach logged -> command {first.command.stat().st_mtime - breach.time:.1f} s -> acknowledged {took:.1f} s -> "
        f"first step {step.time - ack['time']:.1f} s"
    )
    assert run.status["attempt"]["carriedBy"] == 1
    assert not first.outcome.exists(), "the driver did not end"


def _seconds(since: str, until: str) -> float:
    return (datetime.fromisoformat(until) - datetime.fromisoformat(since)).total_seconds()


def _check_files(run: Run, target: int, status: dict[str, Any]) -> None:
    total = run.spec["training"]["totalSteps"]
    rate = run.spec["training"]["learningRate"] * run.spec["rollback"]["adjust"][0]["multiply"]
    config = read_json(run.layout.attempt(2).config)
    assert config["resume"] == {"attempt": 1, "step": target, "weightsOnly": False}
    assert {"attempt": 1, "step": target} in read_json(run.layout.confirmed)["checkpoints"]
    steps = [row for row in run.journal(2) if row.kind is RowKind.STEP]
    assert [row.step for row in steps] == list(range(target + 1, total + 1))
    assert {round(row.figures["learningRate"], 12) for row in steps} == {round(rate, 12)}
    folder = run.layout.attempt(2).checkpoint(total)
    manifest = Manifest.from_json(json.loads((folder / NAME).read_text()))
    assert (manifest.attempt, manifest.step, manifest.settings) == (2, total, {"LearningRate": pytest.approx(rate)})
    assert problems(folder, manifest) == []
    weights = "actor/model_world_size_1_rank_0.pt"
    first_branch = run.layout.attempt(1).checkpoint(run.layout.attempt(1).saved_steps()[-1])
    assert (folder / weights).read_bytes() != (first_branch / weights).read_bytes()
    assert status["checkpoints"]["confirmed"]["attempt"] == 2


def _check_data(run: Run, target: int, status: dict[str, Any]) -> None:
    """The batches of the steps that went bad never come again; their samples are kept."""
    plan = status["attempt"]["data"]
    (failing,) = plan["skip"]
    assert plan["incident"] == [failing]
    assert (failing["attempt"], failing["last"] - failing["first"]) == (1, run.spec["guardrails"][0]["forSteps"])
    steps = range(failing["first"], failing["last"] + 1)
    left_out = {_batches(run, 1)[step] for step in steps}
    trained = list(_batches(run, 2).values())
    rest = (number for number in itertools.count(target) if number not in left_out)
    assert trained == list(itertools.islice(rest, len(trained)))
    folder = run.layout.attempt(1).incident
    assert read_json(folder / "incident.json")["missingSamples"] == []
    for step in steps:
        lines = [json.loads(line) for line in (folder / f"step_{step}.jsonl").read_text().splitlines()]
        assert {line["step"] for line in lines} == {step}
        assert len({line["row"] for line in lines}) == run.spec["training"]["batchSize"]
        assert all(line["prompt"] and line["kl"] is not None and line["parts"] for line in lines)
    assert (run.layout.attempt(2).samples / "train" / "step_40.jsonl").exists()


def _batches(run: Run, attempt: int) -> dict[int, int]:
    """Of each step, the number of its batch."""
    rows = [row for row in run.journal(attempt) if row.kind is RowKind.STEP]
    assert all(row.batches is not None and row.batches.first == row.batches.last for row in rows)
    return {row.step: row.batches.first for row in rows if row.batches is not None}


def _check_retention(run: Run, target: int) -> None:
    """The newest ones and the one that attempt 2 resumed from are there, whole; all others are gone."""
    keep, every = 3, run.spec["checkpoints"]["everySteps"]
    total = run.spec["training"]["totalSteps"]
    newest = list(range(total - (keep - 1) * every, total + 1, every))
    confirmed = [{"attempt": 1, "step": target}, *({"attempt": 2, "step": step} for step in newest)]
    wait_for("the last deletion", lambda: run.layout.attempt(2).saved_steps() == newest, seconds=30)
    assert run.layout.attempt(1).saved_steps() == [target]
    assert read_json(run.layout.confirmed)["checkpoints"] == confirmed
    for ref in confirmed:
        folder = run.layout.attempt(ref["attempt"]).checkpoint(ref["step"])
        assert problems(folder, Manifest.from_json(read_json(folder / NAME))) == []
    assert "CheckpointsDeleted" in run.reasons()
    assert "CheckpointUnusable" not in run.reasons()
    assert [(item["attempt"], item["step"]) for item in run.status["checkpoints"]["items"]] == [
        (ref["attempt"], ref["step"]) for ref in confirmed
    ]


def _check_prometheus(run: Run, target: int) -> None:
    labels = f'namespace="{run.namespace}",ppojob="{run.name}"'

    def highest(metric: str) -> list[float]:
        return run.kube.values(f"max_over_time({metric}{{{labels}}}[20m])")

    threshold = run.spec["guardrails"][0]["conditions"][0]["above"]
    assert highest("ppojob_kl")[0] > threshold
    assert highest("ppojob_reward_mean")[0] > 0
    assert highest("ppojob_reward_std")[0] > 0
    assert highest("ppojob_step") == [run.spec["training"]["totalSteps"]]
    assert highest("ppojob_attempt") == [2]
    assert highest("ppojob_rollbacks_total") == [1]
    query = f'ppojob_checkpoint_step{{{labels},state="Confirmed"}}[20m]'
    confirmed = run.kube.prometheus("query", query=query)["result"]
    assert str(target) in {value for series in confirmed for _, value in series["values"]}


def _check_heir(run: Run) -> None:
    """A second job on the same claim goes on from the first one's newest confirmed checkpoint."""
    job = copy.deepcopy(next(item for item in run.objects if item["kind"] == "PPOJob"))
    total = run.spec["training"]["totalSteps"]
    job["metadata"]["name"] = "heir"
    job["spec"]["training"]["totalSteps"] = total + 3
    job["spec"]["checkpoints"]["resumeFrom"] = {"job": run.name}
    heir = Run(run.kube, run.namespace, "heir", (job,))
    heir.apply()
    status = heir.wait_for_end()
    newest = run.layout.attempt(2).checkpoint(total)
    assert status["phase"] == "Succeeded"
    source = status["attempt"]["source"]
    assert (source["job"], source["step"]) == (run.name, total)
    assert source["path"].endswith(str(newest.relative_to(run.layout.root.parent)))
    assert [row.step for row in heir.journal(1) if row.kind is RowKind.STEP] == [total + 1, total + 2, total + 3]
    assert problems(newest, Manifest.from_json(read_json(newest / NAME))) == [], "the first job's files are untouched"


def _check_story(run: Run) -> None:
    reasons = run.reasons()
    expected = ["Accepted", "ClusterCreated", "AttemptStarted", "FirstStep", "CheckpointConfirmed", "RollbackStarted"]
    assert [reason for reason in expected if reason not in reasons] == []
    assert reasons.count("RollbackStarted") == 1
    assert "Succeeded" in reasons
    assert "Failed" not in reasons
