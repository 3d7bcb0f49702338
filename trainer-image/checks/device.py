"""Hot rollback and cold restart on a GPU, with vLLM: `python checks/device.py FOLDER [grpo] [gae]`; 12 minutes each.

Prints a JSON object a line: seconds, memory, fingerprints. The model has the shape of Qwen2.5-0.5B and random weights.
Needs what the CUDA image has, a local Ray (`ray start --head`) with VLLM_ALLOW_INSECURE_SERIALIZATION=1 in its
environment, and a writable /ppojob/run.
"""

import json
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import torch
from aids import Aids, fingerprints
from run import STOP, Run, wait_for_free_locks
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from ppojob_contract.durable import write_json_once
from ppojob_contract.journal import Row
from ppojob_contract.layout import JobLayout
from ppojob_contract.mailbox import AckResult
from ppojob_trainer import toy

VOCABULARY = 151936
SAVE = 8
"""The steps between the first and this one are the window for throughput."""
ROLLBACKS = 3
PHASES = ("step", "gen", "old_log_prob", "ref", "values", "update_critic", "update_actor", "update_weights")
"""Of a step, as verl calls them."""
_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
OVERRIDES: dict[str, Any] = {
    "data.train_batch_size": 64,
    "data.max_prompt_length": 64,
    f"{_ACTOR}.ppo_mini_batch_size": 32,
    f"{_ACTOR}.use_dynamic_bsz": True,
    f"{_ACTOR}.ppo_max_token_len_per_gpu": 16384,
    f"{_ACTOR}.use_torch_compile": False,
    f"{_ACTOR}.fsdp_config.use_torch_compile": False,
    "actor_rollout_ref.ref.fsdp_config.use_torch_compile": False,
    f"{_ACTOR}.calculate_entropy": True,
    f"{_ACTOR}.optim.lr": 1e-5,
    "actor_rollout_ref.model.enable_gradient_checkpointing": False,
    f"{_ROLLOUT}.gpu_memory_utilization": 0.4,
    f"{_ROLLOUT}.enforce_eager": True,
    f"{_ROLLOUT}.max_num_seqs": 256,
    f"{_ROLLOUT}.max_model_len": 512,
    f"{_ROLLOUT}.agent.num_workers": 4,
    f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu": 32,
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": 32,
    "reward.num_workers": 1,
    "data.dataloader_num_workers": 0,
    "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
    "critic.optim.lr": 1e-5,
    "critic.use_dynamic_bsz": True,
    "critic.ppo_max_token_len_per_gpu": 32768,
    "critic.model.enable_gradient_checkpointing": False,
    "critic.fsdp.use_torch_compile": False,
}


def assets(folder: Path) -> None:
    """Every token has a text, as verl forbids others to vLLM only."""
    if (folder / "model").exists():
        return
    sys.argv[1:] = [str(folder)]
    toy.main()
    tokenizer = json.loads(toy.make_tokenizer().backend_tokenizer.to_str())
    words = tokenizer["model"]["vocab"]
    words |= {f"\u0120filler{index}": index for index in range(len(words), VOCABULARY)}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    whole = PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), eos_token=toy._END, pad_token=toy._PAD
    )
    whole.chat_template = toy._CHAT
    assert len(whole) == VOCABULARY, len(whole)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=896,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        intermediate_size=4864,
        max_position_embeddings=32768,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=whole.eos_token_id,
        pad_token_id=whole.pad_token_id,
    )
    with torch.device("cuda"):
        Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder / "model")
    whole.save_pretrained(folder / "model")


def options_of(toy_folder: Path, algorithm: str) -> tuple[str, ...]:
    critic = algorithm == "gae"
    overrides = {key: value for key, value in OVERRIDES.items() if critic or not key.startswith("critic.")}
    return (
        *("--toy", str(toy_folder), "--steps", "100", "--save", str(SAVE), "--algorithm", algorithm, "--aided"),
        *("--samples", "1" if critic else "4", "--response-length", "256", "--overrides", json.dumps(overrides)),
    )


def hot(root: Path, options: tuple[str, ...], algorithm: str) -> None:
    """Three rollbacks in one driver, then SIGTERM."""
    Aids(repeatable=False).write(root)
    begin = time.time()
    driver = Run(root, 1, *options)
    rows = driver.wait_for_rows(SAVE + 1)
    say(algorithm, "started", first_step=rows[0].time - begin, step_seconds=rows[-1].figures["stepSeconds"], **memory())
    say(algorithm, "memory by role", **by_role(rows[-1]))
    say(algorithm, "pace", **pace([(row.time, row.verl) for row in rows[: SAVE - 1]]))
    for attempt in range(1, ROLLBACKS + 1):
        Aids(repeatable=False, fingerprints=attempt == ROLLBACKS).write(root)
        asked = driver.roll_back(attempt, (1, SAVE))
        row = driver.wait_for_rows(1, attempt + 1)[0]
        ack = driver.ack(attempt)
        assert ack
        assert ack.result is AckResult.DONE, ack
        say(
            algorithm,
            "hot",
            fingerprints=attempt == ROLLBACKS,
            acknowledged=ack.time - asked,
            first_step=row.time - asked,
            step_seconds=row.figures["stepSeconds"],
            rollout_correlation=row.figures["rolloutCorrelation"],
            **memory(),
        )
    begin = time.time()
    driver.process.send_signal(signal.SIGTERM)
    driver.expect(0, "Stopped", attempt=ROLLBACKS + 1)
    wait_for_free_locks()
    say(algorithm, "stopped", seconds=time.time() - begin)


def cold(root: Path, options: tuple[str, ...], algorithm: str) -> None:
    """The same by a new start."""
    begin = time.time()
    driver = Run(root, ROLLBACKS + 2, *options, "--resume", f"1:{SAVE}")
    row = driver.wait_for_rows(1)[0]
    say(
        algorithm,
        "cold",
        first_step=row.time - begin,
        step_seconds=row.figures["stepSeconds"],
        rollout_correlation=row.figures["rolloutCorrelation"],
        **memory(),
    )
    write_json_once(driver.layout.command, {**STOP.to_json(), "save": False})
    driver.expect(0, "Stopped")
    compare(root, algorithm)


def compare(root: Path, algorithm: str) -> None:
    """At the target: as saved, as loaded hot, as loaded cold."""
    taken = {(item["when"], item["attempt"]): item for item in fingerprints(root) if item["step"] == SAVE}
    saved, hot, cold = taken["saved", 1], taken["loaded", ROLLBACKS + 1], taken["loaded", ROLLBACKS + 2]
    parts = ["actor", "engine", *(["critic"] if algorithm == "gae" else [])]
    equal = {part: saved[part] == hot[part] == cold[part] for part in parts}
    say(algorithm, "fingerprints", equal=equal, saved=saved, hot=hot, cold=cold)
    assert all(equal.values()), equal


def memory() -> dict[str, float]:
    """Of the device, and resident of this machine's trainer processes, GiB."""
    used = subprocess.run(
        ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, check=True
    )
    resident = sum(
        process.info["memory_info"].rss
        for process in psutil.process_iter(["name", "cmdline", "memory_info"])
        if process.info["memory_info"] and "ray" in " ".join([process.info["name"], *(process.info["cmdline"] or [])])
    )
    return {"device_gib": int(used.stdout.split()[0]) / 1024, "resident_gib": resident / 2**30}


def by_role(row: Row) -> dict[str, float]:
    """As the trainer's figures say, GiB; a share is a share."""
    return {
        name.replace("Bytes", "GiB"): value / 2**30 if name.endswith("Bytes") else value
        for name, value in row.figures.items()
        if "Memory" in name
    }


def pace(steps: Sequence[tuple[float, Mapping[str, float]]]) -> dict[str, Any]:
    """Of steps, each with the time at which it was recorded and verl's figures. The first one sets the clock.

    From record to record is all that a step takes; `timing_s/step` leaves out what is made of it afterwards.
    """
    between = [after - before for (before, _), (after, _) in pairwise(steps)]
    figures = [verl for _, verl in steps[1:]]
    timings = {
        phase: [verl[f"timing_s/{phase}"] for verl in figures if f"timing_s/{phase}" in verl] for phase in PHASES
    }
    return {
        "seconds": [round(value, 2) for value in between],
        "median_seconds": statistics.median(between),
        "median_tokens_per_second": statistics.median(verl["perf/throughput"] for verl in figures),
        "phases": {phase: round(statistics.median(values), 3) for phase, values in timings.items() if values},
    }


def say(algorithm: str, what: str, **values: Any) -> None:
    rounded = {key: round(value, 4) if isinstance(value, float) else value for key, value in values.items()}
    print(json.dumps({"algorithm": algorithm, "what": what, **rounded}), flush=True)


def main() -> None:
    folder, algorithms = Path(sys.argv[1]).absolute(), sys.argv[2:] or ["grpo", "gae"]
    assets(folder / "assets")
    for algorithm in algorithms:
        root, options = folder / algorithm, options_of(folder / "assets", algorithm)
        if not JobLayout(root).attempts():
            hot(root, options, algorithm)
        cold(root, options, algorithm)


if __name__ == "__main__":
    main()
