"""What a job with stages is given and what it must leave, whatever its model."""

import json
import re
import shutil

from tests.support.kube import REPOSITORY
from tests.support.pod import printed_by_pod
from tests.support.run import Run

from ppojob_contract.manifest import NAME, Manifest, problems
from ppojob_contract.stages import Stage, StageLayout

DATA = REPOSITORY.parent / "shared" / "data"
RAW = ("gsm8k-train.jsonl", "hh-rlhf-pairs.jsonl.gz", "mt-bench-questions.jsonl")
ANSWER = """
import sys
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
model = AutoModelForCausalLM.from_pretrained(sys.argv[1])
prompt = tokenizer.apply_chat_template([{"role": "user", "content": "What is 1 + 1?"}], tokenize=False,
                                       add_generation_prompt=True)
inputs = tokenizer(prompt, return_tensors="pt")
answer = model.generate(**inputs, max_new_tokens=8, min_new_tokens=1, do_sample=False)
new = answer[0, inputs["input_ids"].shape[1]:]
print("said", repr(tokenizer.decode(new, skip_special_tokens=True)))
print("tokens", len(new))
"""


def fill_raw(run: Run) -> None:
    """The files that the examples with stages read, onto the run's claim, which must be there."""
    raw = run.volume / "raw"
    raw.mkdir()
    for name in RAW:
        shutil.copy(DATA / name, raw / name)
        (raw / name).chmod(0o644)


def stages(run: Run) -> dict[str, dict[str, object]]:
    return {item["name"]: item for item in run.status.get("stages", [])}


def print_stages(run: Run) -> None:
    for name, entry in stages(run).items():
        print(name, entry["run"], entry["message"], json.dumps(entry.get("figures", {})))


def outputs_are_whole(run: Run) -> None:
    for name, entry in stages(run).items():
        output = StageLayout.of(run.layout.root, Stage(name), str(entry["key"])).output
        manifest = Manifest.from_json(json.loads((output / NAME).read_text()))
        assert manifest.files
        assert problems(output, manifest) == []


def figures_are_in_prometheus(run: Run) -> None:
    labels = f'namespace="{run.namespace}",ppojob="{run.name}"'
    for stage, key in (("Prepare", "trainRows"), ("Reward", "validationAccuracy"), ("Evaluate", "winRate")):
        query = f'last_over_time(ppojob_stage_figure{{{labels},stage="{stage}",key="{key}"}}[30m])'
        assert run.kube.values(query), query


def the_exported_model_answers(run: Run) -> None:
    exported = f"/ppojob/storage/{run.spec['export']['path']}"
    log = printed_by_pod(run, "ask-the-export", ["python3", "-c", ANSWER, exported])
    print(log.strip())
    said = re.search(r"^tokens (\d+)$", log, re.MULTILINE)
    assert said
    assert int(said[1]) >= 1
