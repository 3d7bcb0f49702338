"""A reward model in verl's engine on a GPU, beside rule and function: `python checks/device_reward.py FOLDER`.

What `device.py` needs. Prints a JSON object a line; the scores of the engine are compared with those of transformers.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from device import OVERRIDES, VOCABULARY, assets, memory, say
from reward_terms import NOW_AND_THEN, asked, function
from run import Run
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForSequenceClassification

from ppojob_trainer.rewards.terms import build

STEPS = 2
TOLERANCE = 0.05
"""The engine computes in bfloat16."""


def reward_model(folder: Path, tokenizer: Any) -> dict[str, Any]:
    """Small, with random weights: scores that differ from answer to answer."""
    torch.manual_seed(1)
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=1024,
        max_position_embeddings=2048,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        num_labels=1,
    )
    Qwen2ForSequenceClassification(config).to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return {"path": str(folder), "maxLength": 1024}


def main() -> None:
    folder = Path(sys.argv[1]).absolute()
    assets(folder / "assets")
    model = reward_model(folder / "reward-model", AutoTokenizer.from_pretrained(folder / "assets" / "model"))
    terms = [
        {"name": "liked", "weight": 1.0, "model": model | {"engine": "VLLM", "memoryFraction": 0.1}},
        {"name": "right", "weight": 1.0, "rule": {"type": "GSM8K"}},
        function(folder, NOW_AND_THEN),
    ]
    overrides = {key: value for key, value in OVERRIDES.items() if not key.startswith("critic.")}
    begin = time.time()
    run = Run(
        folder / "job",
        1,
        *("--toy", str(folder / "assets"), "--steps", str(STEPS), "--save", "100", "--algorithm", "grpo"),
        *("--samples", "4", "--response-length", "64", "--overrides", json.dumps(overrides)),
        *("--terms", json.dumps(terms)),
    )
    run.wait_for_rows(STEPS)
    say("grpo", "steps", seconds=time.time() - begin, rows=[row.to_json()["verl"] for row in run.rows()], **memory())
    run.expect(0, "Succeeded")
    lines = (run.layout.samples / "train" / f"step_{STEPS}.jsonl").read_text().splitlines()
    samples = [json.loads(line) for line in lines][:16]
    alone = build({"name": "liked", "model": model | {"engine": "Transformers"}})
    pairs = [(sample["parts"]["liked"], alone.score(asked(sample))) for sample in samples]
    say("grpo", "scores", samples=len(lines), parts=samples[0]["parts"], pairs=pairs)
    spread = max(one for one, _ in pairs) - min(one for one, _ in pairs)
    assert spread > 0
    assert all(abs(one - other) < TOLERANCE for one, other in pairs), pairs


if __name__ == "__main__":
    main()
