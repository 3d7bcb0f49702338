"""The reward model's training on toy pairs: right sums against wrong ones, which a tiny model can tell apart."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from run import wait_until
from stage import PATIENCE_SECONDS, TOY, StageRun
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from ppojob_contract.durable import read_json
from ppojob_contract.stages import Stage
from ppojob_trainer.stages.reward import checkpoints

STEPS = 28
"""Two epochs of 221 usable pairs, 16 a step."""


def reward_published(folder: Path) -> None:
    """Loss falls, what is left out is counted, the model loads and gives right answers the higher reward."""
    run = StageRun(folder, 1, Stage.REWARD, settings(folder))
    result = run.result()
    figures = result.figures
    assert (figures["step"], figures["steps"]) == (STEPS, STEPS)
    assert (figures["pairsTrain"], figures["pairsValidation"], figures["pairsLeftOut"]) == (221, 64, 3)
    assert figures["validationAccuracy"] > 0.9, figures
    assert run.figures()["step"] == STEPS
    report = read_json(run.layout.output / "report.json")
    assert report
    assert report["pairs"]["train"]["leftOut"] == {"identical": 1, "empty": 1, "tooLong": 1}
    assert report["pairs"]["train"]["first"]["empty"] == [f"{folder}/train.parquet row 2"]
    _prefers_right_sums(run.layout.output / "model")
    again = StageRun(folder, 2, Stage.REWARD, settings(folder))
    assert again.expect("Succeeded").message.startswith("was complete already")


def reward_killed(folder: Path) -> None:
    """Killed in the middle: goes on at the saved step and ends as one that was never killed."""
    told = settings(folder, saveSteps=5, learningRate=1e-4, epochs=20)
    first = StageRun(folder, 1, Stage.REWARD, told)
    wait_until(lambda: first.figures().get("step", 0) > 7, PATIENCE_SECONDS)
    first.kill()
    saved = checkpoints.newest(first.layout.work / "checkpoints")
    assert saved is not None
    second = StageRun(folder, 2, Stage.REWARD, told)
    result = second.result()
    assert result.figures["steps"] == result.figures["step"] == 10 * STEPS
    assert f"going on from {saved.name}" in second.log.read_text()
    whole = StageRun(folder / "whole", 1, Stage.REWARD, told).result()
    for name in ("loss", "validationLoss"):
        assert abs(result.figures[name] - whole.figures[name]) < 1e-6, (name, result.figures, whole.figures)


def reward_two_processes(folder: Path) -> None:
    """Two processes train what one trains."""
    one = StageRun(folder / "one", 1, Stage.REWARD, settings(folder, epochs=1)).result().figures
    two = StageRun(folder / "two", 1, Stage.REWARD, settings(folder, epochs=1), devices=2).result().figures
    for name in ("loss", "validationLoss"):
        assert abs(one[name] - two[name]) < 1e-3, (name, one, two)


def reward_lora(folder: Path) -> None:
    """Two processes, adapters; published merged."""
    run = StageRun(folder, 1, Stage.REWARD, settings(folder, lora=LORA, learningRate=3e-3), devices=2)
    assert run.result().figures["validationAccuracy"] > 0.9
    _prefers_right_sums(run.layout.output / "model")


def reward_stopped(folder: Path) -> None:
    """SIGTERM: saves the step it is at, and the next run goes on there."""
    told = settings(folder, saveSteps=100_000, epochs=200)
    first = StageRun(folder, 1, Stage.REWARD, told, devices=2)
    wait_until(lambda: first.figures().get("step", 0) > 2, PATIENCE_SECONDS)
    first.ask_to_stop()
    message = first.expect("Stopped").message
    saved = checkpoints.newest(first.layout.work / "checkpoints")
    assert saved is not None
    assert message.startswith(f"stopped at step {saved.name.removeprefix('checkpoint-')} of")


def reward_refused(folder: Path) -> None:
    """Each with its class and a message that names what to change."""
    cases: dict[str, tuple[dict[str, Any], str, str]] = {
        "not-finite": ({"learningRate": 1e30}, "NonFinite", "lower training.learningRate"),
        "no-file": ({"train": ["/no/pairs.parquet"]}, "DataError", "/no/pairs.parquet is not there"),
        "not-pairs": ({"train": [f"{TOY}/train.parquet"]}, "DataError", "has no column chosen or rejected"),
        "no-model": ({"model": "/no/model"}, "ConfigError", "/no/model"),
        "uneven": ({"batchSize": 15}, "ConfigError", "training.batchSize 15 cannot be shared evenly by 2 devices"),
        "all-long": ({"maxLength": 3}, "DataError", "can be used"),
    }
    for name, (changes, exit_class, words) in cases.items():
        run = StageRun(folder / name, 1, Stage.REWARD, settings(folder, **changes), devices=2)
        message = run.expect(exit_class).message
        assert words in message, (name, message)


LORA = {"rank": 8, "alpha": 16, "targetModules": []}


def settings(folder: Path, **changes: Any) -> dict[str, Any]:
    """Of a short training; makes the pairs that it is about."""
    _write_pairs(folder)
    return {
        "term": "sums",
        "model": f"{TOY}/model",
        "trustRemoteCode": False,
        "train": [f"{folder}/train.parquet"],
        "validation": [f"{folder}/validation.parquet"],
        "maxLength": 256,
        "epochs": 2,
        "maxSteps": None,
        "batchSize": 16,
        "microBatchSizePerDevice": 8,
        "learningRate": 1e-3,
        "lora": None,
        "saveSteps": 100,
        "seed": 42,
        "minimumAccuracy": None,
    } | changes


def _write_pairs(folder: Path) -> None:
    if (folder / "train.parquet").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    rows = [_pair(*divmod((index * 112) % 288, 17)) for index in range(288)]
    rows[0]["rejected"] = rows[0]["chosen"]
    rows[1]["chosen"] = " "
    rows[2]["rejected"] = "no " * 1000
    pd.DataFrame(rows[:224]).to_parquet(folder / "train.parquet")
    pd.DataFrame(rows[224:]).to_parquet(folder / "validation.parquet")


def _pair(a: int, b: int) -> dict[str, Any]:
    prompt = [{"role": "user", "content": f"What is {a} + {b}?"}]
    return {"prompt": prompt, "chosen": f"The answer is {a + b}.", "rejected": f"No answer, {a + b + 1} or so."}


def _prefers_right_sums(path: Path) -> None:
    """By what is in the folder alone."""
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModelForSequenceClassification.from_pretrained(path)
    assert model.config.num_labels == 1
    assert model.config.pad_token_id == tokenizer.pad_token_id is not None
    pair = _pair(3, 4)
    talks = [[*pair["prompt"], {"role": "assistant", "content": pair[kind]}] for kind in ("chosen", "rejected")]
    with torch.no_grad():
        right, wrong = (
            model(**tokenizer.apply_chat_template(talk, return_dict=True, return_tensors="pt")).logits.item()
            for talk in talks
        )
    assert right > wrong, json.dumps({"right": right, "wrong": wrong})


SCENARIOS = (reward_published, reward_killed, reward_two_processes, reward_lora, reward_stopped, reward_refused)
