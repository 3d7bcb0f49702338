"""What evaluation and export will need, looked at before training: real files, a real HTTP server."""

import asyncio
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from aiohttp import web
from tests.unit.trainer.builders import attempt_config
from tests.unit.trainer.test_judge_endpoint import Answer, said, serving

from ppojob_contract.durable import write_json
from ppojob_trainer.errors import ConfigError, DataError
from ppojob_trainer.stages import ahead
from ppojob_trainer.stages.export.placing import ORIGIN

TERMS = {"terms": [{"name": "answer", "rule": {"type": "GSM8K"}}]}


def look(root: Path, **parts: Any) -> None:
    """At an evaluation of these parts, and at `target`."""
    whole = {"prompts": [], "judge": TERMS, "baseline": None}
    target = parts.pop("target", None)
    ahead.check(attempt_config(root, afterwards={"Evaluate": whole | parts, "Export": {"target": target}}))


def prompts(path: Path, format_: str = "JSONL") -> list[dict[str, Any]]:
    told = {"name": "own", "files": [str(path)], "format": format_, "promptColumn": "prompt", "categoryColumn": None}
    return [told]


def model(folder: Path, architecture: str = "LlamaForSequenceClassification") -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"architectures": [architecture]}))
    return folder


def test_what_is_well_is_let_pass(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text('{"prompt": "a"}\n')
    pq.write_table(pa.table({"prompt": ["a", "b"]}), tmp_path / "own.parquet")
    look(tmp_path, prompts=prompts(tmp_path / "own.jsonl"), target=str(tmp_path / "exports" / "one"))
    look(tmp_path, prompts=prompts(tmp_path / "own.parquet", "Parquet"), baseline={"model": "org/base"})
    look(tmp_path, judge={"rewardModel": {"path": str(model(tmp_path / "judge"))}})
    look(tmp_path, judge={"rewardModel": {"path": "org/judge"}}, baseline={"checkpoint": str(tmp_path)})


def test_a_job_without_such_stages_has_nothing_to_look_at(tmp_path: Path) -> None:
    ahead.check(attempt_config(tmp_path))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "is not there"),
        (b"", "is empty"),
        (b"\n\n", "has no rows"),
        (b'{"text": "a"}\n', "has no column 'prompt'"),
        (b'{"prompt": "a', "line 1: not JSON"),
        (b'{"prompt": 7}\n', "a prompt is a text or a list of messages"),
    ],
)
def test_prompts_that_cannot_be_read(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "own.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        look(tmp_path, prompts=prompts(path))
    assert str(caught.value).startswith(f"spec.evaluation.prompts[own]: {path}")
    assert words in str(caught.value)


def test_parquet_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "own.parquet").write_bytes(b"not Parquet")
    with pytest.raises(DataError, match=r"prompts\[own\]: .*own.parquet cannot be read as Parquet"):
        look(tmp_path, prompts=prompts(tmp_path / "own.parquet", "Parquet"))


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"judge": {"rewardModel": {"path": "/nowhere"}}}, "spec.evaluation.judge: model /nowhere is not there"),
        ({"baseline": {"model": "/nowhere"}}, "spec.evaluation.baseline.path: model /nowhere is not there"),
        ({"baseline": {"checkpoint": "/nowhere/global_step_5"}}, "spec.evaluation.baseline.path: checkpoint /nowhere"),
    ],
)
def test_models_that_are_not_there(tmp_path: Path, parts: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        look(tmp_path, **parts)
    assert words in str(caught.value)


def test_a_judge_that_is_no_reward_model(tmp_path: Path) -> None:
    path = model(tmp_path / "judge", "LlamaForCausalLM")
    with pytest.raises(ConfigError, match=r"judge: .* is not a reward model but a LlamaForCausalLM"):
        look(tmp_path, judge={"rewardModel": {"path": str(path)}})


def asking(root: Path, answer: Answer, **changes: Any) -> None:
    """Looks at a judge behind a server that answers so."""

    async def served() -> None:
        async with serving(answer, **changes) as judge:
            told = {
                "url": judge.url,
                "model": judge.model,
                "apiKeyEnv": judge.api_key_env,
                "timeoutSeconds": judge.timeout_seconds,
                "concurrency": judge.concurrency,
            }
            await asyncio.to_thread(look, root, judge={"endpoint": told})

    asyncio.run(served())


def test_a_judge_is_asked_once(tmp_path: Path) -> None:
    asked = []

    async def answer(request: web.Request) -> web.Response:
        asked.append((await request.json())["model"])
        return said("[[C]]")

    asking(tmp_path, answer)
    assert asked == ["judge"]


@pytest.mark.parametrize(("status", "words"), [(401, "refuses the key"), (404, "HTTP 404")])
def test_a_judge_that_refuses_ends_the_run(tmp_path: Path, status: int, words: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status)

    with pytest.raises(ConfigError, match=rf"spec.evaluation.judge.endpoint: .*{words}"):
        asking(tmp_path, answer)


def test_a_judge_that_is_busy_or_not_there_yet_is_told_of_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=503, text="loading the model")

    with caplog.at_level(logging.WARNING):
        asking(tmp_path, answer)
        told = {"model": "judge", "apiKeyEnv": None, "timeoutSeconds": 1, "concurrency": 1}
        look(tmp_path, judge={"endpoint": {"url": "http://127.0.0.1:9/v1", **told}})
    assert "loading the model" in caplog.text
    assert "http://127.0.0.1:9/v1 does not answer before training" in caplog.text


def test_a_judge_s_key_that_is_not_set(tmp_path: Path) -> None:
    told = {"url": "http://127.0.0.1:9/v1", "model": "m", "apiKeyEnv": "NO_KEY", "timeoutSeconds": 1, "concurrency": 1}
    with pytest.raises(ConfigError, match="NO_KEY, the judge's key, is not set"):
        look(tmp_path, judge={"endpoint": told})


def file(target: Path) -> None:
    target.write_text("mine")


def anothers(target: Path) -> None:
    target.mkdir()
    write_json(target / ORIGIN, {"namespace": "other", "name": "job", "uid": "another", "key": "k"})


@pytest.mark.parametrize(
    ("there", "words"),
    [
        (Path.mkdir, "is there and not of this export"),
        (file, "is there and not"),
        (anothers, "is there and of other/job"),
    ],
)
def test_a_target_that_is_taken(tmp_path: Path, there: Callable[[Path], None], words: str) -> None:
    there(tmp_path / "one")
    with pytest.raises(DataError, match=rf"spec.export.path: {tmp_path}/one {words}"):
        look(tmp_path, target=str(tmp_path / "one"))


def test_the_job_s_own_export_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    write_json(tmp_path / "one" / ORIGIN, {"uid": attempt_config(tmp_path).uid, "key": "k"})
    look(tmp_path, target=str(tmp_path / "one"))


def test_a_target_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=f"spec.export.path: {tmp_path}/file is a file"):
        look(tmp_path, target=str(tmp_path / "file" / "a" / "b"))


def test_a_target_where_nothing_may_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may write anywhere."""
    monkeypatch.setattr(os, "access", lambda path, _: path != tmp_path)
    with pytest.raises(DataError, match=f"may not write in {tmp_path}: change its owner"):
        look(tmp_path, target=str(tmp_path / "a" / "b"))
