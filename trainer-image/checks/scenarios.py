"""Real verl on toy assets, end to end: `python checks/scenarios.py FOLDER [NAME...]`; about a minute a scenario.

What it needs is said in `attempt.py`. Prints a line a scenario; the first failed assertion ends it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import evaluate
import hot
import pipeline
import psutil  # type: ignore[import-untyped]
import reward
import reward_terms
from run import STOP, Run, rollback, wait_for_free_locks, wait_until

from ppojob_contract.data_plan import DataPlan, StepRange
from ppojob_contract.durable import read_json, write_json_once
from ppojob_contract.layout import AttemptLayout, JobLayout
from ppojob_trainer import sealing


def worker_of(run: Run) -> int:
    """Process id of one of its training workers: a process of this container that is younger than the run."""
    begun, mine = run.layout.started.stat().st_mtime, Path("/proc/self/ns/pid").stat().st_ino
    for process in psutil.process_iter(["cmdline", "create_time"]):
        name, young = " ".join(process.info["cmdline"] or []), process.info["create_time"] > begun
        here = Path(f"/proc/{process.pid}/ns/pid")
        if young and name.startswith("ray::WorkerDict") and here.stat().st_ino == mine:
            return int(process.pid)
    raise AssertionError("no training worker found")


def stop_and_resume(folder: Path) -> None:
    """A Stop saves at the boundary; the next attempt goes on from there with another learning rate."""
    first = Run(folder, 1, "--steps", "200", "--save", "50")
    first.wait_for_rows(4)
    write_json_once(first.layout.command, STOP.to_json())
    outcome = first.expect(0, "Stopped")
    assert outcome.step == first.rows()[-1].step
    sealing.verified(first.layout.checkpoint(outcome.step))
    claim, ack = read_json(first.layout.claim), read_json(first.layout.ack)
    assert claim
    assert claim["by"] == "Trainer"
    assert ack
    assert (ack["id"], ack["result"], ack["step"]) == (STOP.id, "Done", outcome.step)

    resume = f"1:{outcome.step}"
    steps = outcome.step + 3
    options = ("--steps", str(steps), "--resume", resume, "--settings", '{"LearningRate": 5e-4}')
    second = Run(folder, 2, *options)
    assert second.expect(0, "Succeeded").step == steps
    rows = second.rows()
    assert [row.step for row in rows] == list(range(outcome.step + 1, steps + 1))
    assert {row.figures["learningRate"] for row in rows} == {5e-4}
    assert {row.figures["criticLearningRate"] for row in rows} == {1e-3}
    before, after = first.rows()[-1].figures["kl"], rows[0].figures["kl"]
    assert before / 2 < after < before * 3, (before, after)

    files = {path: path.stat().st_mtime_ns for path in second.layout.folder.rglob("*")}
    third = Run(folder, 2, *options)
    assert third.end()[0] == 3
    assert files == {path: path.stat().st_mtime_ns for path in second.layout.folder.rglob("*")}

    shard = first.layout.checkpoint(outcome.step) / "critic" / "optim_world_size_1_rank_0.pt"
    os.truncate(shard, shard.stat().st_size - 10)
    damaged = Run(folder, 3, "--steps", str(steps), "--resume", resume).expect(1, "StorageError")
    assert "critic/optim_world_size_1_rank_0.pt" in damaged.message


def refused(folder: Path) -> None:
    """What cannot work ends with a word about why."""
    unknown = Run(folder, 1, "--overrides", '{"actor_rollout_ref.actor.lerning_rate": 1}').expect(1, "ConfigError")
    assert "actor_rollout_ref.actor.lerning_rate" in unknown.message
    managed = Run(folder, 2, "--overrides", '{"trainer.resume_mode": "auto"}').expect(1, "ConfigError")
    assert "trainer.resume_mode" in managed.message
    missing = Run(folder, 3, "--resume", "1:5").expect(1, "StorageError")
    assert "manifest.json is missing" in missing.message
    small = Run(folder, 4, "--overrides", '{"data.train_batch_size": 512}').expect(1, "DataError")
    assert "fewer than a batch of 512" in small.message
    verl = Run(folder, 5, "--overrides", '{"actor_rollout_ref.actor.ppo_mini_batch_size": 64}').expect(1, "ConfigError")
    assert "verl refuses" in verl.message


def sigterm(folder: Path) -> None:
    """SIGTERM saves at the boundary too, and during the start-up ends at once; a Stop can forbid the save."""
    training = Run(folder, 1, "--steps", "200", "--save", "50")
    training.wait_for_rows(2)
    training.process.send_signal(signal.SIGTERM)
    outcome = training.expect(0, "Stopped")
    sealing.verified(training.layout.checkpoint(outcome.step))

    unwanted = Run(folder, 3, "--steps", "200", "--save", "50")
    unwanted.wait_for_rows(2)
    write_json_once(unwanted.layout.command, replace(STOP, save=False).to_json())
    unwanted.expect(0, "Stopped")
    assert unwanted.layout.saved_steps() == []

    starting = Run(folder, 2)
    wait_until(starting.layout.started.exists, 60)
    time.sleep(10)
    begin = time.monotonic()
    starting.process.send_signal(signal.SIGTERM)
    assert starting.expect(0, "Stopped").step == 0
    assert time.monotonic() - begin < 15


def deaths(folder: Path) -> None:
    """A worker's death is an outcome; a killed entry leaves free locks within seconds."""
    first = Run(folder, 1, "--steps", "200")
    first.wait_for_rows(2)
    os.kill(worker_of(first), signal.SIGKILL)
    first.expect(1, "Communication")

    second = Run(folder, 2, "--steps", "200")
    second.wait_for_rows(2)
    second.process.kill()
    second.process.wait()
    wait_for_free_locks()
    assert read_json(second.layout.outcome) is None


def adaptive(folder: Path) -> None:
    """Groups of samples with an adaptive KL coefficient, which verl does not save and the manifest does."""
    options = ("--algorithm", "grpo", "--samples", "4", "--kl-in-reward", "--save", "3")
    first = Run(folder, 1, "--steps", "3", *options)
    first.expect(0, "Succeeded")
    state = sealing.verified(first.layout.checkpoint(3)).state
    assert state["KLCoefficient"] != 0.001
    row = first.rows()[-1]
    assert {"rewardGroupStd", "zeroVarianceGroupFraction", "kl", "klCoefficient"} <= set(row.figures)
    second = Run(folder, 2, "--steps", "4", "--resume", "1:3", *options)
    second.expect(0, "Succeeded")
    assert second.rows()[0].figures["klCoefficient"] == state["KLCoefficient"]


def weights_only(folder: Path) -> None:
    """Another run's weights as a beginning: step 1, fresh data, but the policy is already far from the reference."""
    first = Run(folder, 1, "--steps", "6", "--save", "6", "--lr", "3e-3")
    first.expect(0, "Succeeded")
    second = Run(folder, 2, "--steps", "2", "--resume", "1:6", "--weights-only")
    second.expect(0, "Succeeded")
    rows = second.rows()
    assert [row.step for row in rows] == [1, 2]
    assert rows[0].figures["kl"] > first.rows()[-1].figures["kl"] / 2
    assert rows[0].figures["learningRate"] == 1e-3


def left_out(folder: Path) -> None:
    """By the rows in the samples: what is left out does not come again, through a restart and the end of an epoch
    (16 batches); Replay brings it again; Reshuffle begins another order.
    """
    first = Run(folder, 1, "--steps", "18", "--save", "4", "--validate", "9")
    first.expect(0, "Succeeded")
    reference = {step - 1: prompts(first.layout, step) for step in range(1, 19)}
    assert sum(len(rows) for batch, rows in reference.items() if batch < 16) == 256
    assert len(set().union(*(rows for batch, rows in reference.items() if batch < 16))) == 256
    assert [step for step in (9, 18) if not (first.layout.samples / "validation" / f"step_{step}.jsonl").exists()] == []

    failing = [{"attempt": 1, "first": 6, "last": 7}]
    plan = ("--data", json.dumps({"skip": failing, "incident": failing}))
    second = Run(folder, 2, "--steps", "8", "--resume", "1:4", "--save", "4", *plan)
    second.expect(0, "Succeeded")
    assert trained(second) == [4, 7, 8, 9]
    third = Run(folder, 3, "--steps", "16", "--resume", "2:8", *plan)
    third.expect(0, "Succeeded")
    assert trained(third) == list(range(10, 18))
    for run in (second, third):
        assert [prompts(run.layout, row.step) for row in run.rows()] == [reference[number] for number in trained(run)]
    report = read_json(first.layout.incident / "incident.json")
    assert report
    assert (report["nextAttempt"], report["missingSamples"]) == (2, [])
    kept = [(first.layout.incident / f"step_{step}.jsonl").read_bytes() for step in (6, 7)]
    assert kept == [(first.layout.samples / "train" / f"step_{step}.jsonl").read_bytes() for step in (6, 7)]

    again = Run(folder, 4, "--steps", "7", "--resume", "1:4")
    again.expect(0, "Succeeded")
    assert [prompts(again.layout, step) for step in (5, 6, 7)] == [reference[number] for number in (4, 5, 6)]
    other = Run(folder, 5, "--steps", "6", "--resume", "1:4", "--data", '{"reshuffle": 1}')
    other.expect(0, "Succeeded")
    assert trained(other) == [0, 1]
    assert all(prompts(other.layout, step) not in reference.values() for step in (5, 6))


def left_out_hot(folder: Path) -> None:
    """The same in the running trainer."""
    failing = (StepRange(attempt=1, first=6, last=7),)
    driver = Run(folder, 1, "--steps", "300", "--save", "4")
    driver.wait_for_rows(9)
    driver.command(1, replace(rollback(1, (1, 4)), data=DataPlan(skip=failing, incident=failing)))
    rows = driver.wait_for_rows(4, 2)
    assert [row.batches.first for row in rows[:4] if row.batches] == [4, 7, 8, 9]
    driver.process.send_signal(signal.SIGTERM)
    outcome = driver.expect(0, "Stopped", attempt=2)
    second = driver.job.attempt(2)
    assert prompts(second, 5) == prompts(driver.layout, 5)
    assert prompts(second, 6) == prompts(driver.layout, 8)
    assert (driver.layout.incident / "step_6.jsonl").exists()
    report = read_json(driver.layout.incident / "incident.json")
    assert report
    assert report["missingSamples"] == []
    saved, last = sealing.verified(second.checkpoint(outcome.step)), driver.rows(2)[-1]
    assert (last.step, saved.batches) == (outcome.step, last.batches)
    assert saved.dataset_digest == sealing.verified(driver.layout.checkpoint(4)).dataset_digest


def prompts(layout: AttemptLayout, step: int) -> frozenset[int]:
    """Rows of the data that the step's samples name."""
    lines = (layout.samples / "train" / f"step_{step}.jsonl").read_text().splitlines()
    return frozenset(json.loads(line)["row"] for line in lines)


def trained(run: Run) -> list[int]:
    """Batches, by the journal."""
    drawn = [row.batches for row in run.rows() if row.batches is not None]
    assert all(item.first == item.last for item in drawn)
    return [item.first for item in drawn]


def full_disk(folder: Path) -> None:
    """A save that does not fit is a StorageError, and the outcome is written nevertheless. Needs root, to mount."""
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=7m", "tmpfs", str(folder)], check=True)
    try:
        first = Run(folder, 1, "--steps", "20", "--save", "1")
        outcome = first.expect(1, "StorageError")
        assert outcome.step >= 1
        found = JobLayout(folder).attempt(1)
        assert sealing.verified(found.checkpoint(1))
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


SCENARIOS = {
    function.__name__: function
    for function in (
        refused,
        stop_and_resume,
        sigterm,
        deaths,
        adaptive,
        weights_only,
        left_out,
        left_out_hot,
        full_disk,
        *hot.SCENARIOS,
        *pipeline.SCENARIOS,
        *reward.SCENARIOS,
        *evaluate.SCENARIOS,
        *reward_terms.SCENARIOS,
    )
}


def main() -> None:
    folder = Path(sys.argv[1]).absolute()
    for name in sys.argv[2:] or SCENARIOS:
        begin = time.monotonic()
        SCENARIOS[name](folder / name)
        print(json.dumps({"scenario": name, "seconds": round(time.monotonic() - begin)}), flush=True)


if __name__ == "__main__":
    main()
