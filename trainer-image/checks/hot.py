"""Hot rollbacks on real verl: what is equal to a cold start, what a kill at each point leaves, what is refused."""

import os
import signal
from pathlib import Path
from typing import Any

from aids import POINTS, Aids, fingerprints
from run import STOP, Run, rollback, wait_for_free_locks, wait_until

from ppojob_contract.durable import read_json, write_json_once
from ppojob_contract.journal import Row
from ppojob_contract.layout import JobLayout
from ppojob_contract.mailbox import AckResult
from ppojob_trainer import sealing

SAVE = 4
TARGET = (1, SAVE)
OPTIONS = ("--steps", "300", "--save", str(SAVE), "--aided")
SETTINGS = {"LearningRate": 5e-4, "KLCoefficient": 0.01}
_TIMES = ("timing_", "perf/", "tokensPerSecond", "stepSeconds", "generationSeconds")
"""And memory (`actor/perf/cpu_memory_used_gb`)."""


def hot_equals_cold(folder: Path) -> None:
    """Weights, optimizer and the next three steps, bit for bit; three rollbacks in a row, then SIGTERM.

    With negative controls: without the weights' push, or with the data's iterator kept, the comparison fails.
    """
    Aids().write(folder)
    driver = Run(folder, 1, *OPTIONS)
    uninterrupted = driver.wait_for_rows(SAVE + 3)
    adjusted = _roll_back(driver, 1, TARGET, SETTINGS, rows=SAVE)
    again = _roll_back(driver, 2, TARGET, {}, rows=3)
    assert differences(uninterrupted[SAVE : SAVE + 3], again[:3]) == []
    later = _roll_back(driver, 3, (2, 2 * SAVE), SETTINGS, rows=1)
    assert later[0].step == 2 * SAVE + 1

    Aids(push=False).write(folder)
    unpushed = _roll_back(driver, 4, TARGET, {}, rows=1)
    assert differences(uninterrupted[SAVE : SAVE + 1], unpushed[:1])
    Aids(keep_iterator=True).write(folder)
    elsewhere = _roll_back(driver, 5, TARGET, {}, rows=1)
    assert differences(uninterrupted[SAVE : SAVE + 1], elsewhere[:1])
    Aids().write(folder)

    driver.process.send_signal(signal.SIGTERM)
    outcome = driver.expect(0, "Stopped", attempt=6)
    sealing.verified(driver.job.attempt(6).checkpoint(outcome.step))
    assert [number for number in driver.job.attempts() if driver.outcome(number)] == [6]

    cold = Run(folder, 7, *OPTIONS, "--resume", "1:4", "--settings", '{"LearningRate": 5e-4, "KLCoefficient": 0.01}')
    restarted = cold.wait_for_rows(3)
    write_json_once(cold.layout.command, STOP.to_json())
    cold.expect(0, "Stopped")
    assert differences(adjusted[:3], restarted[:3]) == []
    assert {row.figures["learningRate"] for row in adjusted} == {5e-4}
    assert {row.figures["klCoefficient"] for row in adjusted} == {0.01}
    _same_weights(folder)


def _same_weights(folder: Path) -> None:
    """At the target: saved, loaded hot, loaded cold; and not in the control without a push."""
    taken = [item for item in fingerprints(folder) if item["step"] == SAVE]
    saved = next(item for item in taken if item["when"] == "saved" and item["attempt"] == 1)
    loaded = {item["attempt"]: item for item in taken if item["when"] == "loaded"}
    assert sorted(loaded) == [2, 3, 5, 6, 7]
    for attempt, item in loaded.items():
        assert (item["actor"], item["critic"]) == (saved["actor"], saved["critic"]), attempt
        assert (item["engine"] == saved["engine"]) == (attempt != 5), attempt
    other = next(item for item in fingerprints(folder) if item["when"] == "saved" and item["step"] != SAVE)
    assert other["actor"]["weights"] != saved["actor"]["weights"]


def killed_at_each_point(folder: Path, points: tuple[str, ...] = POINTS) -> None:
    """Kill -9 of entry and task runner behind each effect; the cold start that follows is the next one's victim."""
    job, attempt = JobLayout(folder), 1
    resume: tuple[str, ...] = ()
    target = TARGET
    for point in (*points, None):
        Aids(kill_at=point).write(folder)
        driver = Run(folder, attempt, *OPTIONS, *resume)
        rows = driver.wait_for_rows(SAVE + 1 if attempt == 1 else 1)
        if attempt > 1:
            assert rows[0].step == target[1] + 1
        if point is None:
            write_json_once(driver.layout.command, STOP.to_json())
            driver.expect(0, "Stopped")
            return
        driver.roll_back(attempt, target)
        driver.process.wait(60)
        wait_for_free_locks()
        _left_behind(job, attempt, point)
        attempt, resume = attempt + 2, ("--resume", f"{target[0]}:{target[1]}")


def killed_behind_the_load(folder: Path) -> None:
    """One of them, for every day."""
    killed_at_each_point(folder, ("load",))


def _left_behind(job: JobLayout, attempt: int, point: str) -> None:
    """What the operator and a cold start find."""
    left, following = job.attempt(attempt), job.attempt(attempt + 1)
    reached = POINTS.index(point)
    claim, ack = read_json(left.claim), read_json(left.ack)
    assert claim
    assert claim["by"] == "Trainer"
    assert (ack is not None) == (reached >= POINTS.index("ack")), point
    assert following.started.exists() == (reached >= POINTS.index("config")), point
    assert following.config.exists() == (reached >= POINTS.index("config")), point
    assert following.journal.exists() == (reached >= POINTS.index("journal")), point
    assert not left.outcome.exists()
    assert not following.outcome.exists()
    sealing.verified(job.attempt(TARGET[0]).checkpoint(TARGET[1]))


def refused_and_failed(folder: Path) -> None:
    """A damaged target is refused and the run goes on; a load that breaks half-way ends the driver."""
    Aids().write(folder)
    driver = Run(folder, 1, "--algorithm", "gae", *OPTIONS)
    driver.wait_for_rows(2 * SAVE + 1)
    shard = driver.layout.checkpoint(SAVE) / "critic" / "optim_world_size_1_rank_0.pt"
    os.truncate(shard, shard.stat().st_size - 10)
    driver.roll_back(1, TARGET)
    wait_until(lambda: driver.ack(1), 60)
    ack = driver.ack(1)
    assert ack
    assert (ack.result, "critic/optim_world_size_1_rank_0.pt" in ack.message) == (AckResult.REFUSED, True), ack
    assert not driver.job.attempt(2).folder.exists()
    count = len(driver.rows())
    driver.wait_for_rows(count + 2)
    driver.process.send_signal(signal.SIGTERM)
    driver.expect(0, "Stopped")

    Aids(half_load=True).write(folder)
    broken = Run(folder, 2, *OPTIONS, "--resume", f"1:{2 * SAVE}")
    broken.wait_for_rows(1)
    broken.roll_back(2, (1, 2 * SAVE))
    outcome = broken.expect(1, "StorageError")
    ack = broken.ack(2)
    assert ack
    assert ack.result is AckResult.FAILED
    assert outcome.message.startswith(ack.message)
    assert broken.job.attempt(3).started.exists()
    assert not broken.job.attempt(3).outcome.exists()


def revoked(folder: Path) -> None:
    """The operator takes the command back: the run stops without saving."""
    driver = Run(folder, 1, "--steps", "300", "--save", "100")
    driver.wait_for_rows(2)
    write_json_once(driver.layout.claim, {"by": "Monitor"})
    driver.command(1, rollback(1, (1, 1)))
    driver.expect(0, "Stopped")
    assert driver.layout.saved_steps() == []
    assert driver.ack(1) is None


def adaptive_hot(folder: Path) -> None:
    """Groups with an adaptive KL coefficient in the reward: hot and cold go on with the checkpoint's."""
    options = ("--algorithm", "grpo", "--samples", "4", "--kl-in-reward", *OPTIONS)
    Aids().write(folder)
    driver = Run(folder, 1, *options)
    uninterrupted = driver.wait_for_rows(SAVE + 3)
    again = _roll_back(driver, 1, TARGET, {}, rows=3)
    assert differences(uninterrupted[SAVE : SAVE + 3], again[:3]) == []
    driver.process.send_signal(signal.SIGTERM)
    driver.expect(0, "Stopped", attempt=2)
    cold = Run(folder, 3, *options, "--resume", f"1:{SAVE}")
    assert differences(cold.wait_for_rows(3)[:3], again[:3]) == []
    cold.process.send_signal(signal.SIGTERM)
    cold.expect(0, "Stopped")


def _roll_back(
    driver: Run, attempt: int, target: tuple[int, int], settings: dict[str, float], *, rows: int
) -> list[Row]:
    """Rolls back and waits for so many rows of the next attempt; says how long the first took."""
    asked = driver.roll_back(attempt, target, settings)
    found = driver.wait_for_rows(rows, attempt + 1)
    ack = driver.ack(attempt)
    assert ack
    assert (ack.result, ack.step) == (AckResult.DONE, target[1]), ack
    assert found[0].step == target[1] + 1
    config = read_json(driver.job.attempt(attempt + 1).config)
    assert (config["attempt"], config["settings"]) == (attempt + 1, settings)
    print(
        f"attempt {attempt + 1}: acknowledged after {ack.time - asked:.1f} s, "
        f"first step after {found[0].time - asked:.1f} s",
        flush=True,
    )
    return found


def differences(expected: list[Row], found: list[Row]) -> list[tuple[int, str, Any, Any]]:
    """Figures and verl's metrics that are not equal to the last bit, times and memory left out."""
    assert [row.step for row in expected] == [row.step for row in found]
    pairs = [
        (row.step, key, values.get(key), others.get(key))
        for row, other in zip(expected, found, strict=True)
        for values, others in ((row.figures, other.figures), (row.verl, other.verl))
        for key in sorted({*values, *others})
        if not any(part in key for part in _TIMES)
    ]
    assert len(pairs) > 60 * len(expected)
    return [item for item in pairs if item[2] != item[3]]


SCENARIOS = (
    hot_equals_cold,
    killed_behind_the_load,
    killed_at_each_point,
    refused_and_failed,
    revoked,
    adaptive_hot,
)
