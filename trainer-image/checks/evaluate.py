"""Evaluation on toy models: real generation, a real reward model, a real HTTP server as the judge."""

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import reward
import torch
from run import Run, wait_until
from stage import PATIENCE_SECONDS, TOY, StageRun
from transformers import AutoModelForCausalLM

from ppojob_contract.durable import read_json
from ppojob_contract.stages import Stage

RULE = {"terms": [{"name": "sum", "rule": {"type": "GSM8K"}}]}
KEY = "sk-of-the-check"


def evaluate_identical(folder: Path) -> None:
    """A model against itself ties on every prompt, on one process and on two, sampled or not."""
    for temperature, devices in ((0.0, 1), (1.0, 2)):
        told = settings(temperature=temperature, baseline={"model": f"{TOY}/model"})
        result = StageRun(folder / str(devices), 1, Stage.EVALUATE, told, devices=devices).result()
        figures = result.figures
        assert (figures["ties"], figures["prompts"], figures["winRate"]) == (24, 24, 0.5), figures
        assert figures["winRate/math"] == 0.5
        assert figures["candidateTokens"] == figures["baselineTokens"] > 0


def evaluate_by_reward_model(folder: Path) -> None:
    """Swapped, the result is mirrored; the report names both models."""
    trained = StageRun(folder / "reward", 1, Stage.REWARD, reward.settings(folder / "reward", epochs=1))
    trained.result()
    model = f"{trained.layout.output}/model"
    judge = {"rewardModel": {"path": model, "maxLength": None}}
    other = _other_model(folder)
    one = StageRun(folder / "one", 1, Stage.EVALUATE, settings(judge=judge, baseline={"model": other}))
    figures = one.result().figures
    told = settings(judge=judge, candidate={"model": other}, baseline={"model": f"{TOY}/model"})
    swapped = StageRun(folder / "swapped", 1, Stage.EVALUATE, told).result().figures
    assert figures["wins"] + figures["losses"] > 0, figures
    assert [figures[name] for name in ("wins", "ties", "losses")] == [
        swapped[name] for name in ("losses", "ties", "wins")
    ]
    assert abs(figures["winRateLow"] - (1 - swapped["winRateHigh"])) < 1e-9
    short = {"rewardModel": {"path": model, "maxLength": 1}}
    told = settings(judge=short, baseline={"model": other})
    cut = StageRun(folder / "cut", 1, Stage.EVALUATE, told).result().figures
    assert cut["ties"] == 24, "of a last token that is the same everywhere, the same is thought"
    text = (one.layout.output / "report.md").read_text()
    assert other in text
    assert "Clearest" in text


def evaluate_killed(folder: Path) -> None:
    """Killed while the second model answers: nothing that was answered is generated again."""
    told = settings(
        prompts=_prompts(folder, 160), maxPrompts=160, maxResponseLength=128, temperature=1.0,
        baseline={"model": _other_model(folder)},
    )  # fmt: skip
    first = StageRun(folder, 1, Stage.EVALUATE, told)
    answers = first.layout.work / "answers-baseline-000.jsonl"
    wait_until(answers.exists, PATIENCE_SECONDS)
    first.kill()
    kept = {path.name: path.read_bytes() for path in first.layout.work.glob("answers-*.jsonl")}
    assert len(kept["answers-candidate-000.jsonl"].splitlines()) == 160
    shutil.copytree(first.layout.work, folder / "left")
    second = StageRun(folder, 2, Stage.EVALUATE, told)
    figures = second.result().figures
    assert figures["prompts"] == 160
    assert "answers of an earlier run are used" in second.log.read_text()
    whole = StageRun(folder / "whole", 1, Stage.EVALUATE, told).result().figures
    assert figures == whole


def evaluate_by_endpoint(folder: Path) -> None:
    """Two turns of MT-Bench, a judge that likes short answers; its key is sent and in no file."""
    questions = [
        {"question_id": n, "category": ("writing", "math")[n % 2], "turns": [f"What is {n} + 1?", "And again?"]}
        for n in range(12)
    ]
    path = _lines(folder / "mt-bench.jsonl", questions)
    with _judge() as (url, keys):
        judge = {"url": url, "model": "short", "apiKeyEnv": "CHECK_KEY", "timeoutSeconds": 10, "concurrency": 4}
        told = settings(
            judge={"endpoint": judge}, baseline={"model": _other_model(folder)}, temperature=1.0,
            prompts=[{"files": [path], "format": "MTBench", "promptColumn": "prompt", "categoryColumn": None}],
        )  # fmt: skip
        run = StageRun(folder, 1, Stage.EVALUATE, told, environment={"CHECK_KEY": KEY})
        figures = run.result().figures
    assert figures["prompts"] == 12
    assert {"winRate/writing", "winRate/math"} <= figures.keys()
    assert figures["swapsDisagreed"] == 0
    assert figures["wins"] + figures["losses"] > 0
    assert set(keys) == {f"Bearer {KEY}"}
    assert not [path for path in folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    report = read_json(run.layout.output / "report.json")
    assert report
    assert all(len(item["candidate"]) == 2 for item in report["questions"])


def evaluate_checkpoint(folder: Path) -> None:
    """What real verl has saved, against what it began from."""
    training = Run(folder / "training", 1, "--steps", "2", "--save", "2", "--lr", "1e-2")
    training.process.wait(PATIENCE_SECONDS)
    training.expect(0, "Succeeded")
    told = settings(candidate={"checkpoint": str(training.layout.checkpoint(2))})
    run = StageRun(folder, 1, Stage.EVALUATE, told)
    figures = run.result().figures
    assert figures["prompts"] == 24
    report = read_json(run.layout.output / "report.json")
    assert report
    assert any(item["candidate"] != item["baseline"] for item in report["questions"]), "trained, so it differs"


def evaluate_refused(folder: Path) -> None:
    """Each with its class and a message that names what to change."""
    down = {"url": "http://127.0.0.1:9/v1", "model": "m", "apiKeyEnv": None, "timeoutSeconds": 1, "concurrency": 24}
    cut = folder / "cut.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    cut.write_text('{"prompt": "a"}\n{"prompt": "b')
    lines = {"files": [str(cut)], "format": "JSONL", "promptColumn": "prompt", "categoryColumn": None}
    cases: dict[str, tuple[dict[str, Any], str, str]] = {
        "down": ({"judge": {"endpoint": down}}, "Communication", "did not answer in 6 attempts"),
        "cut": ({"prompts": [lines]}, "DataError", "cut.jsonl line 2: not JSON"),
        "no-model": ({"candidate": {"model": "/no/model"}}, "ConfigError", "/no/model is not there"),
        "no-judge": ({"judge": {"rewardModel": {"path": f"{TOY}/model"}}}, "ConfigError", "is not a reward model"),
        "too-long": ({"maxPromptLength": 2}, "DataError", "longer than maxPromptLength 2"),
    }
    for name, (changes, exit_class, words) in cases.items():
        told = settings(**{"baseline": {"model": _other_model(folder)}, **changes})
        message = StageRun(folder / name, 1, Stage.EVALUATE, told).expect(exit_class).message
        assert words in message, (name, message)


def settings(**changes: Any) -> dict[str, Any]:
    """Of a short evaluation."""
    prompts = {
        "files": [f"{TOY}/validation.parquet"],
        "format": "Parquet",
        "promptColumn": "prompt",
        "categoryColumn": None,
    }
    return {
        "candidate": {"model": f"{TOY}/model"},
        "baseline": {"model": f"{TOY}/model"},
        "model": f"{TOY}/model",
        "trustRemoteCode": False,
        "prompts": [prompts],
        "maxPrompts": 24,
        "maxPromptLength": 64,
        "maxResponseLength": 16,
        "temperature": 0.0,
        "seed": 42,
        "engine": "Transformers",
        "tensorParallelSize": 1,
        "memoryFraction": 0.5,
        "judge": RULE,
        "tieMargin": 0.0,
        "examples": 4,
    } | changes


def _other_model(folder: Path) -> str:
    """The toy model with noise in its weights, so that it answers otherwise."""
    path = folder / "other"
    if not path.exists():
        shutil.copytree(f"{TOY}/model", path)
        torch.manual_seed(1)
        model = AutoModelForCausalLM.from_pretrained(f"{TOY}/model")
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn_like(weight) * 0.05)
        model.save_pretrained(path)
    return str(path)


def _prompts(folder: Path, count: int) -> list[dict[str, Any]]:
    path = _lines(folder / "prompts.jsonl", [{"prompt": f"What is {n} + {n}?"} for n in range(count)])
    return [{"files": [path], "format": "JSONL", "promptColumn": "prompt", "categoryColumn": None}]


def _lines(path: Path, rows: list[dict[str, Any]]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@contextmanager
def _judge() -> Iterator[tuple[str, list[str]]]:
    """Prefers the shorter of the last two answers."""
    keys: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            keys.append(self.headers["Authorization"])
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text = body["messages"][-1]["content"]
            a, b = (len(text.split(f"<assistant_{name}>")[1].split(f"</assistant_{name}>")[0]) for name in "AB")
            verdict = "[[C]]" if a == b else "[[A]]" if a < b else "[[B]]"
            answer = json.dumps({"choices": [{"message": {"content": verdict}}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", keys
    finally:
        server.shutdown()


SCENARIOS = (
    evaluate_identical,
    evaluate_by_reward_model,
    evaluate_killed,
    evaluate_by_endpoint,
    evaluate_checkpoint,
    evaluate_refused,
)
