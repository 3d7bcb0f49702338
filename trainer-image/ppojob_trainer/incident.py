"""What is kept of a rollback: the samples of the steps that led to it, out of reach of their retention.

The trainer that goes on does it, in the same process or by a new start: by then the plan says which steps.
"""

import logging
import os
import shutil
import time
from pathlib import Path

from ppojob_contract.attempt import AttemptConfig
from ppojob_contract.durable import write_json
from ppojob_contract.layout import JobLayout
from ppojob_trainer import samples

log = logging.getLogger(__name__)

REPORT = "incident.json"
"""Written last: with it the folder is whole."""


def keep(attempt: AttemptConfig) -> None:
    """Keeps those of the rollback that led to `attempt`, once. Failing is no reason not to train."""
    if not attempt.data.incident:
        return
    job = JobLayout(Path(attempt.root))
    ended = attempt.data.incident[-1].attempt
    folder = job.attempt(ended).incident
    if (folder / REPORT).exists():
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        missing = [
            step
            for steps in attempt.data.incident
            for step in range(steps.first, steps.last + 1)
            if not _keep(job.attempt(steps.attempt).samples / samples.TRAIN / samples.name(step), folder)
        ]
        report = {
            "attempt": ended,
            "steps": [steps.to_json() for steps in attempt.data.incident],
            "nextAttempt": attempt.attempt,
            "target": attempt.resume.checkpoint.to_json() if attempt.resume else None,
            "settings": dict(attempt.settings),
            "data": {"skip": [steps.to_json() for steps in attempt.data.skip], "reshuffle": attempt.data.reshuffle},
            "missingSamples": missing,
            "time": time.time(),
        }
        write_json(folder / REPORT, report)
    except OSError:
        log.exception("the samples that led to attempt %d are not kept", attempt.attempt)


def _keep(source: Path, folder: Path) -> bool:
    """Whether the file is in the folder now. A file system without hard links gets a copy."""
    target = folder / source.name
    if target.exists():
        return True
    if not source.exists():
        return False
    temporary = folder / f".{source.name}.tmp"
    temporary.unlink(missing_ok=True)
    try:
        os.link(source, temporary)
    except OSError:
        shutil.copyfile(source, temporary)
    temporary.replace(target)
    return True
