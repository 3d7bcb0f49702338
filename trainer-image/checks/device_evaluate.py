"""Evaluation with vLLM on a GPU: `python checks/device_evaluate.py FOLDER [CHECKPOINT]`; 7 minutes, two runs.

What `device.py` needs. CHECKPOINT is a `global_step_N` that it has left in FOLDER; without one the model that training
begins from is the candidate. Prints a JSON object a line.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from device import assets, memory, say
from evaluate import settings
from run import wait_until
from stage import StageRun
from transformers import AutoModelForCausalLM, AutoTokenizer

from ppojob_contract import manifest as manifests
from ppojob_contract.durable import read_json
from ppojob_contract.manifest import Manifest
from ppojob_contract.stages import Stage

DIGITS = {"name": "digits", "rule": {"type": "Regex", "pattern": "[0-9]", "mode": "Share"}}
CONVERSATIONS = 16
"""Of two turns, beside the 32 prompts of the toy."""
FRACTION = 0.6
"""Of the device's memory: two engines at once would not fit, so the first must have given its share back."""


def main() -> None:
    folder, *checkpoint = (Path(argument).absolute() for argument in sys.argv[1:])
    assets(folder / "assets")
    model = str(folder / "assets" / "model")
    candidate = {"checkpoint": str(checkpoint[0])} if checkpoint else {"model": model}
    told = {
        "model": model,
        "prompts": prompts(folder),
        "maxPrompts": 100,
        "maxResponseLength": 128,
        "temperature": 1.0,
        "engine": "VLLM",
        "memoryFraction": FRACTION,
        "judge": {"terms": [DIGITS]},
    }
    other = {"model": other_model(folder, model)}
    one = evaluated(folder / "evaluate", settings(**told, candidate=candidate, baseline=other))
    assert {item["verdict"]["outcome"] for item in one} >= {"win", "loss"}
    swapped = evaluated(folder / "evaluate-swapped", settings(**told, candidate=other, baseline=candidate))
    compare(one, swapped)


def compare(one: list[dict[str, Any]], swapped: list[dict[str, Any]]) -> None:
    """Where both models said the same again, the verdict is mirrored. Batches form by chance: rounding may differ."""
    mirror = {"win": "loss", "loss": "win", "tie": "tie"}
    pairs = list(zip(one, swapped, strict=True))
    same = {
        side: [a[side] == b[other] for a, b in pairs]
        for side, other in (("candidate", "baseline"), ("baseline", "candidate"))
    }
    mirrored = [mirror[a["verdict"]["outcome"]] == b["verdict"]["outcome"] for a, b in pairs]
    say(
        "evaluate",
        "swapped",
        questions=len(pairs),
        mirrored=sum(mirrored),
        **{f"same_{side}": sum(found) for side, found in same.items()},
    )
    assert all(found for found, *both in zip(mirrored, *same.values(), strict=True) if all(both))


def prompts(folder: Path) -> list[dict[str, Any]]:
    questions = folder / "mt-bench.jsonl"
    rows = [
        {"category": ("writing", "coding")[n % 2], "turns": [f"What is {n} + 20?", f"And {n} + 21?"]}
        for n in range(CONVERSATIONS)
    ]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    toy, columns = str(folder / "assets" / "validation.parquet"), {"promptColumn": "prompt", "categoryColumn": None}
    return [
        {"files": [toy], "format": "Parquet", **columns},
        {"files": [str(questions)], "format": "MTBench", **columns},
    ]


def other_model(folder: Path, model: str) -> str:
    """Of the same shape, with noise in its weights."""
    path = folder / "other"
    if not path.exists():
        torch.manual_seed(1)
        made = AutoModelForCausalLM.from_pretrained(model).to("cuda")
        with torch.no_grad():
            for weight in made.parameters():
                weight.add_(torch.randn_like(weight) * 0.02)
        made.save_pretrained(path)
        AutoTokenizer.from_pretrained(model).save_pretrained(path)
        del made
        torch.cuda.empty_cache()
    return str(path)


def evaluated(folder: Path, told: dict[str, Any]) -> list[dict[str, Any]]:
    """The questions in the report of a run that leaves a whole output."""
    begin, marks = time.time(), {}
    run = StageRun(folder, 1, Stage.EVALUATE, told)
    for side in ("candidate", "baseline"):
        answers = run.layout.work / f"answers-{side}-000.jsonl"
        wait_until(lambda answers=answers: answers.exists() or run.process.poll() is not None, 300)  # type: ignore[misc]
        marks[f"{side}_answered"] = time.time() - begin
        marks[f"{side}_device_gib"] = memory()["device_gib"]
    result = run.result()
    say("evaluate", "ended", seconds=time.time() - begin, **marks, message=result.message, figures=result.figures)
    wait_until(lambda: memory()["device_gib"] < 2, 30)
    manifest = Manifest.from_json(read_json(run.layout.output / manifests.NAME) or {})
    assert {"result.json", "report.json", "report.md"} <= manifest.files.keys()
    assert not manifests.problems(run.layout.output, manifest)
    report = read_json(run.layout.output / "report.json")
    assert report
    questions: list[dict[str, Any]] = report["questions"]
    assert len(questions) == result.figures["prompts"] == 32 + CONVERSATIONS
    assert [len(item["candidate"]) for item in questions].count(2) == CONVERSATIONS
    assert all(text for item in questions for side in ("candidate", "baseline") for text in item[side])
    say("evaluate", "report", questions=len(questions), manifest=sorted(manifest.files), first=str(questions[0])[:600])
    return questions


if __name__ == "__main__":
    main()
