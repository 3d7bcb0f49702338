"""Scenarios of the stages beside training: data into verl, a checkpoint out of it."""

import json
from pathlib import Path
from typing import Any

from run import START_SECONDS, Run
from stage import TOY, StageRun

from ppojob_contract.layout import JobLayout
from ppojob_contract.stages import Stage

MODEL = f"{TOY}/model"
_SMALLER = {
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 4,
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": 4,
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": 4,
}
"""Two devices share a batch."""


def _sums(path: Path, count: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for number in range(count):
            a, b = number % 17, number // 17
            row = {"question": f"What is {a} + {b}?", "answer": f"{a}+{b}=<<{a}+{b}={a + b}>>\n#### {a + b}"}
            file.write(json.dumps(row) + "\n")
    return path


def _settings(*files: str, **changes: Any) -> dict[str, Any]:
    source = {"name": "sums", "recipe": "GSM8K", "files": list(files), "hub": "HuggingFace", "split": "train"}
    return {
        "sources": [source],
        "validationFraction": 0.2,
        "validationMaxRows": 16,
        "seed": 42,
        "maxPromptLength": 80,
        "tokenizer": MODEL,
        **changes,
    }


def prepared(folder: Path) -> None:
    """verl's own data set reads the Parquet, counts the same tokens, and trains on it."""
    from omegaconf import OmegaConf
    from transformers import AutoTokenizer
    from verl.utils.dataset.rl_dataset import RLHFDataset

    raw = _sums(folder / "raw" / "sums.jsonl", 289)
    made = _ended(folder, Stage.PREPARE, _settings(str(raw)))
    report = json.loads((made / "report.json").read_text())
    again = StageRun(folder, 2, Stage.PREPARE, _settings(str(raw)))
    assert again.expect("Succeeded").message.startswith("was complete already")

    longest = report["promptTokens"]["max"]
    assert (report["rowsOut"], longest <= 80) == (289, True), report
    for limit, kept in ((longest, report["trainRows"]), (longest - 1, None)):
        config = OmegaConf.create(
            {"max_prompt_length": limit, "filter_overlong_prompts_workers": 1, "cache_dir": str(folder / "cache")}
        )
        files = [str(made / "train.parquet"), str(made / "validation.parquet")]
        tokenizer = AutoTokenizer.from_pretrained(MODEL)
        data = RLHFDataset(files if kept is None else files[:1], tokenizer, config)
        assert (len(data) == kept) if kept is not None else (len(data) < report["rowsOut"]), (limit, len(data))
        row = data[0]
        assert row["reward_model"]["ground_truth"].isdigit(), row
        assert row["raw_prompt"][0]["content"].startswith("What is "), row

    data_files = {
        "data.train_files": [str(made / "train.parquet")],
        "data.val_files": [str(made / "validation.parquet")],
        "data.max_prompt_length": 80,
    }
    Run(folder / "trained", 1, "--steps", "1", "--overrides", json.dumps(data_files)).expect(0, "Succeeded")


def from_a_hub(folder: Path) -> None:
    """`datasets` resolves the name, here to a folder of the same name, and finds its splits."""
    for split, rows in (("train", 100), ("test", 40)):
        _sums(folder / "org" / "sums" / f"{split}.jsonl", rows)
    for split, rows in (("train", 100), ("test", 40)):
        settings = _settings("org/sums")
        settings["sources"][0]["split"] = split
        made = StageRun(folder / split, 1, Stage.PREPARE, settings, cwd=folder).result()
        assert made.figures["rowsIn"] == rows, made
    settings["sources"][0]["split"] = "nothing"
    assert "nothing" in StageRun(folder / "n", 1, Stage.PREPARE, settings, cwd=folder).expect("DataError").message
    offline = StageRun(folder / "o", 1, Stage.PREPARE, _settings("no/where"), cwd=folder).expect("ConfigError")
    assert "HF_HUB_OFFLINE" in offline.message


def _checkpoint(root: Path, overrides: dict[str, Any], *options: str) -> Path:
    """Of two devices, after two steps that move the weights."""
    more = ("--steps", "2", "--save", "2", "--devices", "2", "--lr", "1e-2", "--algorithm", "grpo", "--samples", "2")
    trained = Run(root, 1, *more, *options, "--overrides", json.dumps(_SMALLER | overrides))
    trained.process.wait(START_SECONDS)  # two devices of a slow machine take longer than a run's end does
    trained.expect(0, "Succeeded")
    return JobLayout(root).attempt(1).checkpoint(2)


def _ended(root: Path, of: Stage, settings: dict[str, Any]) -> Path:
    """The output of a first run that ends well."""
    run = StageRun(root, 1, of, settings)
    run.result()
    return run.layout.output


def _figures(output: Path) -> dict[str, float]:
    return dict(json.loads((output / "result.json").read_text())["figures"])


def _answers(model: Any, tokenizer: Any) -> str:
    chat = [{"role": "user", "content": "What is 1 + 2?"}]
    inputs = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    tokens = model.generate(**inputs, max_new_tokens=8, do_sample=False)
    return str(tokenizer.decode(tokens[0][inputs["input_ids"].shape[1] :]))


def exported(folder: Path) -> None:
    """The merged model has the live actor's weights, which verl gathered from both devices at the save, bit by bit."""
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    save = {"actor_rollout_ref.actor.checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"]}
    checkpoint = _checkpoint(folder, save)
    settings = {
        "checkpoint": str(checkpoint),
        "model": MODEL,
        "card": {"job": "toy", "attempts": [{"number": 1}]},
        "target": str(folder / "exports" / "toy"),
    }
    made = _ended(folder, Stage.EXPORT, settings)
    live, base = load_file(checkpoint / "actor/huggingface/model.safetensors"), load_file(f"{MODEL}/model.safetensors")
    for place in (made, folder / "exports" / "toy"):
        mine = load_file(place / "model.safetensors")
        assert set(mine) == set(live)
        assert all(torch.equal(mine[name], live[name]) and mine[name].dtype == live[name].dtype for name in live)
    assert max((mine[name] - base[name]).abs().max() for name in base) > 1e-3, "training moved them"
    model, tokenizer = AutoModelForCausalLM.from_pretrained(made), AutoTokenizer.from_pretrained(made)
    assert _answers(model, tokenizer)
    assert _figures(made)["parameters"] == sum(parameter.numel() for parameter in model.parameters())
    assert (made / "README.md").read_text().startswith("---\n")

    smaller = _ended(folder, Stage.EXPORT, {**settings, "dtype": "bfloat16", "target": None})
    loaded = AutoModelForCausalLM.from_pretrained(smaller, dtype="auto")
    assert loaded.dtype == torch.bfloat16
    assert all(torch.equal(loaded.state_dict()[name], live[name].bfloat16()) for name in live)

    wrong = StageRun(folder, 1, Stage.EXPORT, {**settings, "format": "Adapter", "target": None}).expect("ConfigError")
    assert "no LoRA adapter" in wrong.message
    shard = next((checkpoint / "actor").glob("model_world_size_2_rank_1.pt"))
    shard.write_bytes(shard.read_bytes()[:-100])
    damaged = StageRun(folder, 1, Stage.EXPORT, {**settings, "dtype": "float32", "target": None}).expect("StorageError")
    assert shard.name in damaged.message


def exported_lora(folder: Path) -> None:
    """Merged, and the adapter alone: peft puts the one upon the base and has the other."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = "actor_rollout_ref.model"
    lora = {f"{model}.lora_rank": 8, f"{model}.lora_alpha": 16, f"{model}.target_modules": ["q_proj", "v_proj"]}
    checkpoint = _checkpoint(folder, lora)
    settings = {"checkpoint": str(checkpoint), "model": MODEL}
    merged = _ended(folder, Stage.EXPORT, settings)
    adapter = _ended(folder, Stage.EXPORT, {**settings, "format": "Adapter"})
    assert _figures(adapter)["sizeBytes"] < _figures(merged)["sizeBytes"] / 2
    assert (adapter / "adapter_model.safetensors").exists()
    assert json.loads((adapter / "adapter_config.json").read_text())["base_model_name_or_path"] == MODEL
    base = AutoModelForCausalLM.from_pretrained(MODEL)
    before = {name: tensor.clone() for name, tensor in base.state_dict().items()}
    whole = AutoModelForCausalLM.from_pretrained(merged)
    put_on = PeftModel.from_pretrained(base, adapter).merge_and_unload().state_dict()
    moved = [name for name, tensor in whole.state_dict().items() if not torch.equal(tensor, before[name])]
    assert moved, "training moved them"
    assert all("q_proj.weight" in name or "v_proj.weight" in name for name in moved), moved
    assert all(torch.allclose(tensor, put_on[name], atol=1e-6) for name, tensor in whole.state_dict().items())
    assert _answers(whole, AutoTokenizer.from_pretrained(merged))


SCENARIOS = (prepared, from_a_hub, exported, exported_lora)
