import asyncio
import math
import os
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.trainer.builders import checkpoint, content, event_row, sealed_checkpoint, started, step_row

from ppojob_contract.durable import write_json_once
from ppojob_contract.layout import JobLayout
from ppojob_contract.mailbox import CheckpointRef, Command, CommandKind
from ppojob_contract.manifest import CHECKSUM_LIMIT_BYTES
from ppojob_contract.metrics import LEFT_OUT, REWARD_TERM_MEAN, STAGE_DURATION, TRAINER_METRICS, VERL
from ppojob_contract.outcomes import ExitClass, Outcome
from ppojob_contract.protocol import LockState, State, Steps
from ppojob_trainer import locks, sealing
from ppojob_trainer.attempt_files import AttemptFiles
from ppojob_trainer.monitor.app import Monitor
from ppojob_trainer.monitor.job import Identity, Job

AUTHORIZED = {"Authorization": "Bearer secret"}
STOP = Command(id="c1", kind=CommandKind.STOP)
Client = TestClient[Any, Any]


@pytest.fixture
def job(tmp_path: Path) -> JobLayout:
    return JobLayout(tmp_path / "job")


def make_monitor(tmp_path: Path) -> Monitor:
    token = tmp_path / "token"
    token.write_text("secret\n")
    identity = Identity(
        namespace="research",
        name="sums",
        uid="job-uid",
        pod_uid="pod-uid",
        root=tmp_path / "job",
        lock_files=(tmp_path / "driver.lock", tmp_path / "runner.lock"),
    )
    return Monitor(Job(identity), token)


@pytest_asyncio.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with TestClient(TestServer(make_monitor(tmp_path).app())) as ready:
        yield ready


async def state(client: Client) -> State:
    response = await client.get("/v1/state")
    assert response.status == 200
    return State.from_json(await response.json())


async def steps(client: Client, query: str) -> Steps:
    response = await client.get(f"/v1/steps?{query}")
    assert response.status == 200, await response.text()
    return Steps.from_json(await response.json())


async def test_an_empty_job(client: Client) -> None:
    assert (await client.get("/healthz")).status == 200
    found = await state(client)
    assert (found.job_uid, found.pod_uid, found.lock) == ("job-uid", "pod-uid", LockState.FREE)
    assert not found.attempts
    assert not found.checkpoints
    assert not found.confirmed
    assert (await client.get("/metrics")).status == 200


async def test_state_of_attempts(client: Client, job: JobLayout, tmp_path: Path) -> None:
    first, second = started(job, 1), started(job, 2)
    step_row(first, 1)
    AttemptFiles(first).finish(Outcome(exit_class=ExitClass.STOPPED, message="m", step=1))
    event_row(second, 1, "AttemptStarted")
    step_row(second, 2, {"kl": math.inf})
    write_json_once(second.command, STOP.to_json())
    with locks.held(tmp_path / "runner.lock", 0.0):
        found = await state(client)
    assert found.lock is LockState.HELD
    one, two = found.attempts
    assert one.outcome is not None
    assert (one.outcome.exit_class, one.rows, one.last_step) == (ExitClass.STOPPED, 1, 1)
    assert (two.rows, two.last_step, two.command, two.claimed_by) == (2, 2, STOP, None)
    assert (two.steps, two.step_seconds) == (1, 1.5), "events are no steps"
    assert two.last_heartbeat_age_seconds is not None
    assert two.last_heartbeat_age_seconds < 5


async def test_checkpoints(client: Client, job: JobLayout, tmp_path: Path) -> None:
    layout = started(job, 1)
    sealed_checkpoint(layout, 1, 5)
    damaged, _ = sealed_checkpoint(layout, 1, 10)
    checkpoint(layout, 1, 15)
    with locks.held(tmp_path / "driver.lock", 0.0):
        whole, _, saving = (await state(client)).checkpoints
    assert whole.complete
    assert (whole.size_bytes, whole.world_size) == (15, 1)
    assert (saving.saving, saving.complete, saving.size_bytes) == (True, False, 15)
    (damaged / "data.pt").write_bytes(b"x")
    _, cut, dead = (await state(client)).checkpoints
    assert cut.problem == "data.pt has 1 bytes instead of 8"
    assert not dead.saving


async def test_reading_large_files_is_left_to_the_trainer(client: Client, job: JobLayout) -> None:
    folder = checkpoint(started(job, 1), 1, 5)
    (folder / "data.pt").write_bytes(b"i" * (CHECKSUM_LIMIT_BYTES + 1))
    values = {"attempt": 1, "step": 5, "world_size": 1}
    sealing.seal(folder, **values, figures={}, state={}, settings={}, checksums=True)  # type: ignore[arg-type]
    (folder / "data.pt").write_bytes(b"I" * (CHECKSUM_LIMIT_BYTES + 1))
    assert (await state(client)).checkpoints[0].complete
    (folder / "actor" / "model.pt").write_bytes(b"WEIGHTS")
    os.utime(folder / "manifest.json", (2e9, 2e9))
    assert (await state(client)).checkpoints[0].problem == "actor/model.pt has another content than when it was saved"


async def test_a_checkpoint_that_an_attempt_could_not_load(client: Client, job: JobLayout) -> None:
    folder, _ = sealed_checkpoint(started(job, 1), 1, 5)
    second = started(job, 2)
    failed = CheckpointRef(attempt=1, step=5)
    AttemptFiles(second).finish(Outcome(exit_class=ExitClass.STORAGE_ERROR, message="cut off", step=5, unusable=failed))
    (found,) = (await state(client)).checkpoints
    assert found.problem == "attempt 2 could not load it: cut off"
    later = second.outcome.stat().st_mtime + 1
    os.utime(folder / "manifest.json", (later, later))  # a person has mended it
    assert (await state(client)).checkpoints[0].complete


async def test_a_foreign_manifest_is_a_problem_not_a_failure(client: Client, job: JobLayout) -> None:
    folder, _ = sealed_checkpoint(started(job, 1), 1, 5)
    for text in ("[]", "{", '{"attempt": 1}'):
        (folder / "manifest.json").write_text(text)
        (found,) = (await state(client)).checkpoints
        assert found.problem is not None
        assert found.world_size is None


async def test_rows_by_position(client: Client, job: JobLayout) -> None:
    layout = started(job, 1)
    event_row(layout, 0, "AttemptStarted")
    for step in (1, 2, 3):
        step_row(layout, step)
    answer = await steps(client, "attempt=1&after=0&metrics=kl,actor/odd,nothing")
    assert [row.step for row in answer.rows] == [0, 1, 2, 3]
    assert answer.rows[0].event == "AttemptStarted"
    assert answer.rows[1].values == {"kl": 0.01, "actor/odd": 7.0}
    assert [row.step for row in (await steps(client, "attempt=1&after=3")).rows] == [3]
    assert (await steps(client, "attempt=1&after=9")).rows == ()
    assert set((await steps(client, "attempt=1&after=1")).rows[0].values) == {"kl", "rewardMean", "stepSeconds"}


async def test_non_finite_figures_arrive(client: Client, job: JobLayout) -> None:
    step_row(started(job, 1), 1, {"kl": math.nan, "gradNorm": -math.inf})
    (row,) = (await steps(client, "attempt=1&metrics=kl,gradNorm")).rows
    assert math.isnan(row.values["kl"])
    assert row.values["gradNorm"] == -math.inf


async def test_long_poll_ends_with_a_row(client: Client, job: JobLayout) -> None:
    layout = started(job, 1)
    begin = time.monotonic()
    waiting = asyncio.create_task(steps(client, "attempt=1&after=0&wait=30"))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    assert (await client.get("/healthz")).status == 200
    step_row(layout, 1)
    assert [row.step for row in (await waiting).rows] == [1]
    assert time.monotonic() - begin < 5


async def test_long_poll_ends_without_a_row(client: Client) -> None:
    assert (await steps(client, "attempt=7&after=0&wait=0.1")).rows == ()


async def test_half_a_line_waits_for_its_end(client: Client, job: JobLayout) -> None:
    layout = started(job, 1)
    step_row(layout, 1)
    step_row(layout, 2)
    text = layout.journal.read_bytes()
    layout.journal.write_bytes(text[:-10])
    assert len((await steps(client, "attempt=1&after=0")).rows) == 1
    layout.journal.write_bytes(text)
    assert len((await steps(client, "attempt=1&after=0")).rows) == 2


@pytest.mark.parametrize("query", ["", "attempt=x", "attempt=1&after=-1", "attempt=1&wait=nan", "attempt=1&wait=x"])
async def test_bad_queries(client: Client, query: str) -> None:
    response = await client.get(f"/v1/steps?{query}")
    assert response.status == 400
    assert "error" in await response.json()


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic secret"}])
@pytest.mark.parametrize("path", ["/v1/command?attempt=1", "/v1/claim?attempt=1", "/v1/confirmed"])
async def test_writing_needs_the_token(client: Client, job: JobLayout, headers: dict[str, str], path: str) -> None:
    layout = started(job, 1)
    assert (await client.put(path, json=STOP.to_json(), headers=headers)).status == 401
    assert not layout.command.exists()
    assert not layout.claim.exists()


async def test_the_token_can_change_and_can_be_missing(client: Client, job: JobLayout, tmp_path: Path) -> None:
    started(job, 1)
    (tmp_path / "token").write_text("other")
    assert (await client.put("/v1/claim?attempt=1", headers=AUTHORIZED)).status == 401
    (tmp_path / "token").write_text("")
    assert (await client.put("/v1/claim?attempt=1", headers={"Authorization": "Bearer "})).status == 401
    (tmp_path / "token").unlink()
    assert (await client.put("/v1/claim?attempt=1", headers=AUTHORIZED)).status == 401


async def put(client: Client, path: str, body: Any = None) -> tuple[int, Any]:
    response = await client.put(path, json=body, headers=AUTHORIZED)
    return response.status, await response.json()


async def test_a_command_is_put_once(client: Client, job: JobLayout) -> None:
    layout = started(job, 1)
    path = "/v1/command?attempt=1"
    assert await put(client, path, STOP.to_json()) == (201, STOP.to_json())
    assert await put(client, path, STOP.to_json()) == (200, STOP.to_json())
    other = Command(id="c2", kind=CommandKind.STOP)
    assert await put(client, path, other.to_json()) == (409, STOP.to_json())
    AttemptFiles(layout).finish(Outcome(exit_class=ExitClass.STOPPED, message="m", step=1))
    assert (await put(client, path, STOP.to_json()))[0] == 200


async def test_commands_that_cannot_be_put(client: Client, job: JobLayout) -> None:
    assert (await put(client, "/v1/command?attempt=1", STOP.to_json()))[0] == 404
    layout = started(job, 1)
    bodies: list[Any] = [{}, [], "x", {"id": "a", "kind": "Dance"}]
    for body in bodies:
        assert (await put(client, "/v1/command?attempt=1", body))[0] == 400
    AttemptFiles(layout).finish(Outcome(exit_class=ExitClass.STOPPED, message="m", step=1))
    assert (await put(client, "/v1/command?attempt=1", STOP.to_json()))[0] == 410


async def test_revoking(client: Client, job: JobLayout) -> None:
    started(job, 1)
    second = started(job, 2)
    assert await put(client, "/v1/claim?attempt=1") == (200, {"claimedBy": "Monitor"})
    write_json_once(second.claim, {"by": "Trainer", "id": "c1"})
    assert await put(client, "/v1/claim?attempt=2") == (200, {"claimedBy": "Trainer"})


async def test_confirmations_replace_each_other(client: Client, job: JobLayout) -> None:
    for refs in ([{"attempt": 1, "step": 5}], [{"attempt": 1, "step": 5}, {"attempt": 1, "step": 10}]):
        assert await put(client, "/v1/confirmed", {"checkpoints": refs}) == (200, {"checkpoints": refs})
    assert (await state(client)).confirmed[-1] == CheckpointRef(attempt=1, step=10)
    assert (await put(client, "/v1/confirmed", {"checkpoints": [{"attempt": 1}]}))[0] == 400
    assert content(job.confirmed)["checkpoints"][0]["step"] == 5


Series = dict[tuple[str, tuple[str, ...]], float]


async def samples(client: Client) -> Series:
    """By name and label values without those of the job, which each series must carry."""
    found: Series = {}
    for family in text_string_to_metric_families(await (await client.get("/metrics")).text()):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert (labels.pop("namespace"), labels.pop("ppojob")) == ("research", "sums")
            found[sample.name, tuple(labels.values())] = sample.value
    return found


async def test_series(client: Client, job: JobLayout) -> None:
    first, second = started(job, 1), started(job, 2)
    for step in (1, 2, 3):
        step_row(first, step)
    memory = {"criticMemoryAllocatedBytes": 3e9, "rolloutMemoryReservedBytes": 6e9, "deviceMemoryTotalBytes": 8e10}
    step_row(second, 2, {"gradNorm": 4.0, "learningRate": 1e-6, **memory})
    sealed_checkpoint(first, 1, 2)
    await put(client, "/v1/confirmed", {"checkpoints": [{"attempt": 1, "step": 2}]})
    found = await samples(client)
    expected: Series = {
        ("ppojob_step", ()): 2,
        ("ppojob_attempt", ()): 2,
        ("ppojob_last_step_timestamp_seconds", ()): 1002,
        ("ppojob_tokens_total", ()): 400,
        ("ppojob_kl", ()): 0.02,
        ("ppojob_gradient_norm", ("actor",)): 4.0,
        ("ppojob_learning_rate", ("actor",)): 1e-6,
        ("ppojob_device_memory_bytes", ("allocated", "critic")): 3e9,
        ("ppojob_device_memory_bytes", ("reserved", "rollout")): 6e9,
        ("ppojob_device_memory_bytes", ("total", "device")): 8e10,
        ("ppojob_stage_duration_seconds", ("gen",)): 0.5,
        ("ppojob_verl", ("actor/odd",)): 7,
        ("ppojob_step_duration_seconds_count", ()): 4,
        ("ppojob_step_duration_seconds_sum", ()): 6.0,
        ("ppojob_step_duration_seconds_bucket", ("1.0",)): 0,
        ("ppojob_step_duration_seconds_bucket", ("2.0",)): 4,
        ("ppojob_step_duration_seconds_bucket", ("+Inf",)): 4,
        ("ppojob_checkpoint_step", ("Complete",)): 2,
        ("ppojob_checkpoint_step", ("Confirmed",)): 2,
        ("ppojob_checkpoint_bytes", ()): 15,
        ("ppojob_checkpoint_save_seconds", ()): 0.25,
    }
    assert {key: found.get(key) for key in expected} == expected


async def test_only_declared_series(client: Client, job: JobLayout) -> None:
    step_row(started(job, 1), 1)
    declared = {metric.name.removesuffix("_total") for metric in TRAINER_METRICS}
    text = await (await client.get("/metrics")).text()
    assert {family.name for family in text_string_to_metric_families(text)} <= declared


async def test_reward_terms_have_a_series_of_their_own(client: Client, job: JobLayout) -> None:
    terms = {f"reward_term/t{n:02}": n / 10 for n in range(REWARD_TERM_MEAN.combinations)}
    step_row(started(job, 1), 1, **terms)
    found = await samples(client)
    assert found[REWARD_TERM_MEAN.name, ("t03",)] == 0.3
    exported = Counter(name for name, _ in found)
    assert exported[REWARD_TERM_MEAN.name] == len(terms)
    assert not any("reward_term" in label for name, labels in found if name == VERL.name for label in labels)


async def test_names_from_user_code_are_bounded(client: Client, job: JobLayout) -> None:
    odd = {f"own/{n}": 1.0 for n in range(1000)} | {f"timing_s/own{n}": 1.0 for n in range(100)}
    step_row(started(job, 1), 1, **odd)
    found = await samples(client)
    exported = Counter(name for name, _ in found)
    assert [exported[metric.name] for metric in (VERL, STAGE_DURATION)] == [VERL.series, STAGE_DURATION.series]
    ordinary = 4  # those that `step_row` adds itself
    assert found[LEFT_OUT.name, ()] == len(odd) + ordinary - VERL.series - STAGE_DURATION.series


async def test_counters_survive_a_restart_of_the_monitor(client: Client, job: JobLayout, tmp_path: Path) -> None:
    layout = started(job, 1)
    step_row(layout, 1)
    before = await samples(client)
    step_row(layout, 2)
    async with TestClient(TestServer(make_monitor(tmp_path).app())) as second:
        after = await samples(second)
    name = ("ppojob_tokens_total", ())
    assert (before[name], after[name]) == (100, 200)
    assert after == await samples(client)
