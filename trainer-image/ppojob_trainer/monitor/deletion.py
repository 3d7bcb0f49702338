"""Deleting checkpoints: at once they stop being any, then their space is freed.

A manifest becomes a tombstone by one rename. From then on no reader takes the folder for a checkpoint, and a monitor
that is killed before the folder is gone, or its successor, finds what was begun. The operator says which ones may go;
what a run could need next is refused here once more, by what is on the disk.
"""

import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ppojob_contract import manifest as manifests
from ppojob_contract.durable import read_json, sync_directory
from ppojob_contract.layout import AttemptLayout, JobLayout
from ppojob_contract.mailbox import CheckpointRef, Command
from ppojob_contract.protocol import CheckpointState, Deletion, Refusal
from ppojob_trainer.monitor.job import Job

log = logging.getLogger("ppojob_monitor")

KEPT_CONFIRMED = 2
"""So many of the newest confirmed checkpoints stay, whatever happens."""


def delete(job: Job, wanted: Sequence[CheckpointRef]) -> Deletion:
    """Buries what may go. One that is not there any more counts as deleted: the same request may come again."""
    states = {item.ref: item for item in job.checkpoints(job.lock())}
    starting = _starting(job.layout)
    kept = _needed(job, states)
    deleted, refused = [], []
    for ref in dict.fromkeys(wanted):
        reason = starting or kept.get(ref) or _not_ours(job.layout, ref)
        if reason is not None:
            refused.append(Refusal(ref=ref, reason=reason))
            continue
        if ref in states:
            _bury(job.layout.attempt(ref.attempt).checkpoint(ref.step))
        deleted.append(ref)
    return Deletion(deleted=tuple(deleted), refused=tuple(refused))


def clear_away(layout: JobLayout) -> None:
    """Frees the space of all that is buried. What cannot be removed now is tried again the next time."""
    for number in layout.attempts():
        attempt = layout.attempt(number)
        for step in attempt.saved_steps():
            folder = attempt.checkpoint(step)
            ours = _not_ours(layout, CheckpointRef(attempt=number, step=step)) is None
            if ours and (folder / manifests.TOMBSTONE).exists():
                try:
                    _remove(folder)
                except OSError as error:
                    log.warning("checkpoint %s of attempt %d is not removed yet: %s", step, number, error)


def _bury(folder: Path) -> None:
    tombstone = folder / manifests.TOMBSTONE
    try:
        (folder / manifests.NAME).rename(tombstone)
    except FileNotFoundError:  # never completed, so no checkpoint already
        try:
            tombstone.touch()
        except OSError:  # the volume is full, maybe of just this one
            _remove(folder)
            return
    sync_directory(folder)


def _remove(folder: Path) -> None:
    """The tombstone goes last: until then it says what the rest is. Links are removed, not followed."""
    for path in folder.iterdir():
        if path.name == manifests.TOMBSTONE:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    shutil.rmtree(folder)
    sync_directory(folder.parent)


def _needed(job: Job, states: Mapping[CheckpointRef, CheckpointState]) -> dict[CheckpointRef, str]:
    """Checkpoints that a run uses or goes back to, and why they stay."""
    reasons = {ref: "it is being saved" for ref, item in states.items() if item.saving}
    whole = [ref for ref, item in states.items() if item.complete]
    if whole:
        reasons[max(whole, key=lambda ref: (ref.attempt, ref.step))] = "it is the newest complete checkpoint"
    confirmed = [ref for ref in job.confirmed() if ref in whole]
    for ref in confirmed[-KEPT_CONFIRMED:]:
        reasons[ref] = f"it is one of the newest {KEPT_CONFIRMED} confirmed checkpoints"
    for number in job.layout.attempts()[-2:]:  # a rollback's next attempt may begin before the command is acknowledged
        layout = job.layout.attempt(number)
        target = _target(layout)
        if target is not None:
            reasons[target] = f"a command to attempt {number} names it"
    source = _source(job.layout)
    if source is not None:
        reasons[source] = "the running attempt began from it"
    return reasons


def _target(attempt: AttemptLayout) -> CheckpointRef | None:
    """Of a command that is not settled."""
    value = read_json(attempt.command)
    if value is None or attempt.ack.exists() or attempt.outcome.exists():
        return None
    return Command.from_json(value).target


def _source(layout: JobLayout) -> CheckpointRef | None:
    newest = _newest_without_outcome(layout)
    config: dict[str, Any] = (read_json(newest.config) if newest else None) or {}
    return CheckpointRef.from_json(config["resume"]) if config.get("resume") else None


def _starting(layout: JobLayout) -> str | None:
    newest = _newest_without_outcome(layout)
    if newest is None or not newest.started.exists() or newest.config.exists():
        return None
    return "an attempt is starting and has not said yet where from"


def _newest_without_outcome(layout: JobLayout) -> AttemptLayout | None:
    """The newest attempt, unless it has ended (one that was killed counts as running until the next)."""
    numbers = layout.attempts()
    newest = layout.attempt(numbers[-1]) if numbers else None
    return newest if newest is not None and not newest.outcome.exists() else None


def _not_ours(layout: JobLayout, ref: CheckpointRef) -> str | None:
    """A link anywhere on the way leads to files that are somebody else's."""
    attempt = layout.attempt(ref.attempt)
    folder = attempt.checkpoint(ref.step)
    for path in (attempt.folder.parent, attempt.folder, attempt.checkpoints, folder):
        if path.is_symlink():
            return f"{path.relative_to(layout.root)} is a link"
    return None if folder.is_dir() or not folder.exists() else f"{folder.relative_to(layout.root)} is no folder"
