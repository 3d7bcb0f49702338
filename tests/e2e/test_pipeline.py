"""From raw files to an exported model: `examples/pipeline.yaml` with one stage killed; a trial."""

import json
import shutil

import pytest
import yaml
from tests.cluster import images
from tests.e2e.conftest import example
from tests.support.kube import REPOSITORY, Kube, wait_for
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
print("tokens", answer.shape[1] - inputs["input_ids"].shape[1])
"""

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not DATA.is_dir(), reason="the real data is not beside the project"),
]


@pytest.fixture
def pipeline(kube: Kube, namespace: str) -> Run:
    """The example with its claim filled, not applied yet."""
    run = Run.of(kube, namespace, example("pipeline"))
    claim = [item for item in run.objects if item["kind"] == "PersistentVolumeClaim"]
    kube.apply(yaml.safe_dump_all(claim), namespace)
    raw = run.volume / "raw"
    raw.mkdir()
    for name in RAW:
        shutil.copy(DATA / name, raw / name)
        (raw / name).chmod(0o644)
    return run


def stages(run: Run) -> dict[str, dict[str, object]]:
    return {item["name"]: item for item in run.status.get("stages", [])}


def test_pipeline(pipeline: Run) -> None:
    run = pipeline
    run.spec["reward"]["terms"][0]["training"]["epochs"] = 12  # long enough to be met in the middle
    run.apply()
    run.wait("the reward model's training", lambda status: "stage Reward is running: " in status.get("message", ""))
    prepared = stages(run)["Prepare"]
    selector = f"rlhf.dev/job={run.name},ray.io/node-type=head"
    run.kube.kubectl("delete", "pod", "-n", run.namespace, "-l", selector, "--wait=false")
    status = run.wait_for_end()
    assert status["phase"] == "Succeeded", status
    seen = stages(run)
    for name, entry in seen.items():
        print(name, entry["run"], entry["message"], json.dumps(entry["figures"]))
    assert [(name, entry["phase"], entry["run"]) for name, entry in seen.items()] == [
        ("Prepare", "Succeeded", 1),
        ("Reward", "Succeeded", 2),
        ("Evaluate", "Succeeded", 1),
        ("Export", "Succeeded", 1),
    ]
    assert seen["Prepare"]["ended"] == prepared["ended"], "what was finished is not done again"
    _outputs_are_whole(run)
    _figures_are_in_prometheus(run)
    _the_exported_model_answers(run)


def _outputs_are_whole(run: Run) -> None:
    for name, entry in stages(run).items():
        output = StageLayout.of(run.layout.root, Stage(name), str(entry["key"])).output
        manifest = Manifest.from_json(json.loads((output / NAME).read_text()))
        assert manifest.files
        assert problems(output, manifest) == []


def _figures_are_in_prometheus(run: Run) -> None:
    labels = f'namespace="{run.namespace}",ppojob="{run.name}"'
    for stage, key in (("Prepare", "trainRows"), ("Reward", "validationAccuracy"), ("Evaluate", "winRate")):
        query = f'last_over_time(ppojob_stage_figure{{{labels},stage="{stage}",key="{key}"}}[30m])'
        assert run.kube.values(query), query


def _the_exported_model_answers(run: Run) -> None:
    name = "ask-the-export"
    claim = {"name": "storage", "persistentVolumeClaim": {"claimName": run.spec["storage"]["claimName"]}}
    container = {
        "name": "ask",
        "image": images.project_image(run.kube.paths, "trainer-cpu"),
        "command": ["python3", "-c", ANSWER, "/ppojob/storage/exports/pipeline"],
        "volumeMounts": [{"name": "storage", "mountPath": "/ppojob/storage"}],
    }
    spec = {"restartPolicy": "Never", "containers": [container], "volumes": [claim]}
    metadata = {"name": name, "namespace": run.namespace}
    run.kube.kubectl.apply_objects([{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}])

    def ended() -> str | None:
        found = run.kube.get("pod", name, run.namespace)
        phase = found["status"]["phase"] if found else ""
        return phase if phase in {"Succeeded", "Failed"} else None

    phase = wait_for("the answer", ended, seconds=120)
    log = run.kube.kubectl("logs", name, "--namespace", run.namespace)
    assert phase == "Succeeded", log
    assert int(log.split("tokens")[-1]) >= 1


def test_a_cut_line_is_named(pipeline: Run) -> None:
    path = pipeline.volume / "raw" / "gsm8k-train.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:7], lines[7][:40] + b"\n", *lines[8:]]))
    pipeline.spec["data"]["prepare"]["maxBadRows"] = 0
    pipeline.apply()
    status = pipeline.wait("the end", lambda now: now.get("finished"))
    failed = pipeline.condition("Failed")
    print(failed["message"])
    assert (status["phase"], failed["reason"]) == ("Failed", "DataError")
    assert "gsm8k-train.jsonl line 8: " in failed["message"]
    assert not status.get("attempt")


@pytest.mark.slow
def test_trial(kube: Kube, namespace: str) -> None:
    """It runs before the job has a cluster, and nothing of it is used by the job."""
    run = Run.of(kube, namespace, example("minimal"))
    run.spec["trial"] = {"steps": 2}
    run.spec["training"]["totalSteps"] = 3
    run.apply()
    run.wait("the trial", lambda status: "is Running" in status.get("message", ""))
    assert not run.status.get("clusterNumber"), "the job's own devices are not asked for yet"
    names = [item["metadata"]["name"] for item in kube.kubectl.read("ppojobs.rlhf.dev", "-n", namespace)["items"]]
    status = run.wait_for_end()
    assert status["phase"] == "Succeeded", status
    (trial,) = [name for name in names if name != run.name]
    print(trial, status["stages"][0]["message"])
    assert (status["stages"][0]["name"], status["stages"][0]["phase"]) == ("Trial", "Succeeded")
    assert "resume" not in status["attempt"]
    assert "source" not in status["attempt"]
