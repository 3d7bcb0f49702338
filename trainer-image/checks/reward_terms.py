"""Rewards on real verl: rule, function and model in one sum; a function that hangs, fails now and then, or always."""

import json
import math
from pathlib import Path
from typing import Any

import torch
from aids import Aids
from run import Run
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForSequenceClassification

from ppojob_contract import journal
from ppojob_contract.journal import REWARD_FAILED, REWARD_TERM, Row
from ppojob_trainer.rewards.answers import Answer
from ppojob_trainer.rewards.preflight import NO_ANSWER
from ppojob_trainer.rewards.terms import build

TOY = Path("/opt/ppojob/toy")
STEPS = 3
NOW_AND_THEN = f"""
def compute_score(data_source, solution_str, ground_truth, extra_info):
    if solution_str == {NO_ANSWER!r} or len(solution_str) % 4 == 0:
        raise KeyError("no answer in it")
    return len(solution_str) / 100
"""
HANGS = f"""
import time

def compute_score(data_source, solution_str, ground_truth, extra_info):
    while solution_str not in ({NO_ANSWER!r}, ground_truth):
        time.sleep(1)
    return 1.0
"""
ALWAYS = """
def compute_score(*_):
    return {}["score"]
"""


def combined(folder: Path) -> None:
    """The parts are in samples and journal, their weighted sum is the reward, failures are counted and told."""
    _combined(folder)


def combined_later(folder: Path) -> None:
    """The same where verl scores after generation, as it does with a reward model on the policy's devices."""
    Aids(repeatable=False, fingerprints=False, score_later=True).write(folder)
    assert all("timing_s/reward" in row.verl for row in _combined(folder, "--aided").rows())


def _combined(folder: Path, *options: str) -> Run:
    model = reward_model(folder / "reward-model")
    terms = [
        {"name": "digits", "weight": 0.5, "rule": {"type": "Regex", "pattern": "[0-9]", "mode": "Share"}},
        {"name": "short", "weight": 2.0, "rule": {"type": "Overlong", "maxTokens": 16, "bufferTokens": 8}},
        function(folder, NOW_AND_THEN),
        {"name": "liked", "weight": -1.0, "model": {"path": str(model), "engine": "Transformers", "maxLength": 256}},
    ]
    weights = {str(term["name"]): float(str(term["weight"])) for term in terms}
    run = start(folder, terms, "--validate", "2", *options)
    run.expect(0, "Succeeded")
    samples = [json.loads(line) for path in sorted(run.layout.samples.rglob("train/*")) for line in path.open()]
    assert len(samples) == STEPS * 16
    liked = build(terms[3])
    for sample in samples:
        assert set(sample["parts"]) == set(weights)
        wanted = sum(weights[name] * part for name, part in sample["parts"].items())
        assert math.isclose(sample["reward"], wanted, rel_tol=1e-5, abs_tol=1e-6), sample
        failed = len(sample["response"]) % 4 == 0
        assert sample["rewardFailed"] == failed, sample
        assert sample["parts"]["own"] == (0.0 if failed else len(sample["response"]) / 100)
        assert sample["parts"]["short"] == -max(0, sample["responseLength"] - 8) / 8
    again = [liked.score(asked(sample)) for sample in samples[:8]]
    assert all(math.isclose(a, b["parts"]["liked"], abs_tol=1e-4) for a, b in zip(again, samples, strict=False)), again
    validated = [json.loads(line) for line in (run.layout.samples / "validation" / "step_2.jsonl").open()]
    assert len(validated) == 32
    assert all(set(sample["parts"]) == set(weights) for sample in validated)
    for row in run.rows():
        mine = [sample for sample in samples if sample["step"] == row.step]
        for name in weights:
            mean = sum(sample["parts"][name] for sample in mine) / len(mine)
            assert math.isclose(row.verl[f"{REWARD_TERM}{name}"], mean, abs_tol=1e-6), (name, row)
        assert row.figures["failedPromptFraction"] == sum(sample["rewardFailed"] for sample in mine) / len(mine)
    before, during = failures(run)
    assert (before.step, during.step > 0) == (0, True)
    assert before.message.startswith(
        "own: KeyError: 'no answer in it' (reward.py, line 4, in compute_score); on 8 of 16"
    )
    assert during.message.startswith("own: KeyError: 'no answer in it' (reward.py, line 4, in compute_score)")
    return run


def function_hangs(folder: Path) -> None:
    """Training goes on: each call ends at its deadline and counts as failed."""
    terms = [function(folder, HANGS, timeoutSeconds=1), {"name": "right", "weight": 1.0, "rule": {"type": "GSM8K"}}]
    run = start(folder, terms)
    run.expect(0, "Succeeded")
    assert [row.figures["failedPromptFraction"] for row in run.rows()] == [1.0] * STEPS
    assert all(4 <= row.figures["generationSeconds"] < 20 for row in run.rows()), run.rows()
    assert [row.message for row in failures(run)] == ["own: TimeoutError: no answer within 1 s; its process was ended"]


def terms_refused(folder: Path) -> None:
    """What cannot work ends before any actor is made, with its own words."""
    run = start(folder / "function", [function(folder, ALWAYS)])
    said = run.expect(1, "ConfigError").message
    assert said.startswith("reward term own: KeyError: 'score' (reward.py, line 3, in compute_score); so on each of 16")
    assert not run.layout.journal.exists()
    assert "ready to fit" not in run.log.read_text()
    policy = {"name": "liked", "weight": 1.0, "model": {"path": str(TOY / "model"), "engine": "Transformers"}}
    model = start(folder / "model", [policy])
    said = model.expect(1, "ConfigError").message
    assert "not a model for sequence classification" in said, said
    assert not model.layout.journal.exists()


def asked(sample: dict[str, Any]) -> Answer:
    """What the reward model was given; the sample has the prompt as it was put to the policy."""
    question = sample["prompt"].split("user\n")[1].split("\nassistant")[0].strip()
    return Answer(response=sample["response"], prompt=[{"role": "user", "content": question}])


def start(folder: Path, terms: list[dict[str, Any]], *options: str) -> Run:
    return Run(folder, 1, "--steps", str(STEPS), "--save", "100", "--terms", json.dumps(terms), *options)


def failures(run: Run) -> list[Row]:
    return [row for row, _ in journal.read(run.layout.journal) if row.event == REWARD_FAILED]


def function(folder: Path, code: str, **more: Any) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "reward.py"
    path.write_text(code)
    return {"name": "own", "weight": 1.0, "function": {"path": str(path), "name": "compute_score", **more}}


def reward_model(folder: Path) -> Path:
    """Random weights from a fixed seed, with the policy's tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(TOY / "model")
    torch.manual_seed(1)
    config = Qwen2Config.from_pretrained(TOY / "model", num_labels=1)
    Qwen2ForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


SCENARIOS = (combined, combined_later, function_hangs, terms_refused)
