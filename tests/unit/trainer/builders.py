"""Files of a job as the trainer leaves them, for the tests."""

import time
from pathlib import Path
from typing import Any

from ppojob_contract import journal
from ppojob_contract.attempt import AttemptConfig, Resume
from ppojob_contract.data_plan import Batches
from ppojob_contract.durable import read_json, write_json_once
from ppojob_contract.journal import Row, RowKind
from ppojob_contract.layout import AttemptLayout, JobLayout
from ppojob_contract.mailbox import CheckpointRef
from ppojob_contract.manifest import Manifest
from ppojob_trainer import sealing


def content(path: Path) -> Any:
    """Of a JSON file that must be there."""
    value = read_json(path)
    assert value is not None
    return value


def attempt_config(root: Path, **changes: Any) -> AttemptConfig:
    values: dict[str, Any] = {
        "namespace": "research",
        "name": "sums",
        "uid": "0b1c2d3e-0000-0000-0000-000000000000",
        "attempt": 1,
        "root": str(root),
        "overrides": {"data.train_batch_size": 16},
        "reward_terms": [{"name": "right", "weight": 1.0, "rule": {"type": "GSM8K"}}],
        "total_steps": 10,
        "max_response_length": 16,
        "devices_per_node": 1,
        "nodes": 1,
    }
    return AttemptConfig(**(values | changes))


def user_term(folder: Path, code: str, **changes: Any) -> dict[str, Any]:
    """A reward term with that code."""
    path = folder / "reward.py"
    path.write_text(code)
    return {"name": "own", "weight": 1.0, "function": {"path": str(path), "name": "compute"} | changes}


def resume_from(attempt: int, step: int, *, weights_only: bool = False) -> Resume:
    return Resume(checkpoint=CheckpointRef(attempt=attempt, step=step), weights_only=weights_only)


def started(job: JobLayout, attempt: int) -> AttemptLayout:
    layout = job.attempt(attempt)
    write_json_once(layout.started, {"time": time.time()})
    layout.heartbeat.touch()
    return layout


def step_row(
    layout: AttemptLayout,
    step: int,
    figures: dict[str, float] | None = None,
    batches: Batches | None = None,
    **verl: float,
) -> None:
    own = {"kl": step / 100, "rewardMean": 0.5, "stepSeconds": 1.5} | (figures or {})
    keys = {"perf/total_num_tokens": 100.0, "timing_s/gen": 0.5, "timing_s/save_checkpoint": 0.25, "actor/odd": 7.0}
    row = Row(kind=RowKind.STEP, step=step, time=1000.0 + step, figures=own, verl=keys | verl, batches=batches)
    journal.append(layout.journal, row)


def event_row(layout: AttemptLayout, step: int, event: str) -> None:
    journal.append(layout.journal, Row(kind=RowKind.EVENT, step=step, time=1000.0, event=event, message="said"))


def checkpoint(layout: AttemptLayout, attempt: int, step: int) -> Path:
    folder = layout.checkpoint(step)
    (folder / "actor").mkdir(parents=True)
    (folder / "actor" / "model.pt").write_bytes(b"weights")
    (folder / "data.pt").write_bytes(b"iterator")
    return folder


def sealed_checkpoint(layout: AttemptLayout, attempt: int, step: int, **changes: Any) -> tuple[Path, Manifest]:
    folder = checkpoint(layout, attempt, step)
    values: dict[str, Any] = {
        "attempt": attempt,
        "step": step,
        "world_size": 1,
        "figures": {"kl": 0.1},
        "state": {},
        "settings": {},
    }
    return folder, sealing.seal(folder, **(values | changes))
