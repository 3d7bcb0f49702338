# mypy: disable-error-code="import, no-untyped-call"
"""The driver of a reward model's training: tokens first, then one process for each device, then the report."""

import logging
import time
from typing import Any

from transformers import AutoConfig, AutoTokenizer

from ppojob_contract.durable import read_json, write_json
from ppojob_contract.stages import StageResult
from ppojob_trainer.errors import HangError, Stopped
from ppojob_trainer.stages import gang, model_files
from ppojob_trainer.stages.context import StageContext
from ppojob_trainer.stages.conversations import require_padding, require_template
from ppojob_trainer.stages.intervals import wilson
from ppojob_trainer.stages.reward import checkpoints, training
from ppojob_trainer.stages.reward.files import RewardFiles
from ppojob_trainer.stages.reward.pairs import Counts
from ppojob_trainer.stages.reward.settings import RewardSettings, batches
from ppojob_trainer.stages.reward.tokens import tokenized
from ppojob_trainer.stages.scoring import encode

log = logging.getLogger(__name__)

STOP_SECONDS = 60.0
"""For the processes to finish a step and save."""

SILENCE_SECONDS = 1800.0
"""Without a step."""


def run(context: StageContext) -> None:
    """Raises what `classification` knows."""
    settings, files = RewardSettings.from_json(context.settings), RewardFiles(context.work, context.output)
    batches(settings, context.config.devices)
    tokenizer = _checked_tokenizer(settings)
    counts = {"train": _tokens("train", settings, files, tokenizer, context)}
    if settings.validation:
        counts["validation"] = _tokens("validation", settings, files, tokenizer, context)
    files.stop.unlink(missing_ok=True)
    result = _train(context, files)
    figures = result["figures"] | {
        "step": float(result["step"]),
        "steps": float(result["steps"]),
        "pairsTrain": float(counts["train"].kept),
        "pairsLeftOut": float(sum(split.left_out.total() for split in counts.values())),
    }
    message = _message(settings, figures)
    write_json(files.output / "report.json", _report(settings, counts, figures, message))
    context.publish(StageResult(message=message, figures=figures))


def _checked_tokenizer(settings: RewardSettings) -> Any:
    """What can be refused before a device is taken."""
    model_files.require(settings.model)
    AutoConfig.from_pretrained(settings.model, trust_remote_code=settings.trust_remote_code)
    tokenizer = AutoTokenizer.from_pretrained(settings.model, trust_remote_code=settings.trust_remote_code)
    require_template(tokenizer, settings.model)
    require_padding(tokenizer, settings.model)
    return tokenizer


def _tokens(split: str, settings: RewardSettings, files: RewardFiles, tokenizer: Any, context: StageContext) -> Counts:
    """Made once a key."""
    found = read_json(files.counts(split))
    if found is not None and files.tokens(split).exists():
        return Counts.from_json(found)

    sources = settings.train if split == "train" else settings.validation
    counts = tokenized(
        sources, files.tokens(split), lambda talks: encode(tokenizer, talks), settings.max_length, context.check
    )
    write_json(files.counts(split), counts.to_json())
    log.info("%s pairs: %s", split, counts.to_json())
    return counts


def _train(context: StageContext, files: RewardFiles) -> dict[str, Any]:
    config = context.config
    watching = _Watching(context, files)
    checkpoint = checkpoints.newest(files.checkpoints)
    if checkpoint is not None:
        log.info("going on from %s", checkpoint.name)
    task = {
        "settings": dict(context.settings),
        "work": str(files.work),
        "output": str(files.output),
        "checkpoint": None if checkpoint is None else str(checkpoint),
    }
    shape = gang.Shape(config.nodes, config.devices_per_node, distributed=True)
    result: dict[str, Any] = gang.run(training.work, task, shape, context, watching.look)[0]
    if result["stopped"]:
        raise Stopped(f"stopped at step {result['step']} of {result['steps']}, saved")
    return result


class _Watching:
    """Hands on what the processes report, and asks them to stop."""

    def __init__(self, context: StageContext, files: RewardFiles) -> None:
        self.context = context
        self.files = files
        self.seen: Any = None
        self.seen_at = time.monotonic()
        self.asked_at: float | None = None

    def look(self) -> None:
        """Raises Stopped where a stop is overdue, HangError where nothing moves."""
        now = time.monotonic()
        progress = read_json(self.files.progress)
        if progress != self.seen:
            self.seen, self.seen_at = progress, now
            self.context.figures(progress or {})
        if now - self.seen_at > SILENCE_SECONDS:
            raise HangError(f"no step of the reward model's training for {SILENCE_SECONDS:.0f} s")
        try:
            self.context.check()
        except Stopped:
            if self.asked_at is None:
                self.files.stop.touch()
                self.asked_at = now
        if self.asked_at is not None and now - self.asked_at > STOP_SECONDS:
            raise Stopped(f"stopped without saving: no step was finished within {STOP_SECONDS:.0f} s")


def _message(settings: RewardSettings, figures: dict[str, float]) -> str:
    told = f"reward model {settings.term}: {figures['steps']:.0f} steps on {figures['pairsTrain']:.0f} pairs"
    if "validationAccuracy" not in figures:
        return f"{told}; no held-out pairs, so nothing is known of its accuracy"
    accuracy, pairs = figures["validationAccuracy"], int(figures["pairsValidation"])
    low, high = wilson(accuracy * pairs, pairs)
    return f"{told}; right about {accuracy:.1%} of {pairs} held-out pairs (95 %: {low:.1%} to {high:.1%})"


def _report(
    settings: RewardSettings, counts: dict[str, Counts], figures: dict[str, float], message: str
) -> dict[str, Any]:
    return {
        "message": message,
        "model": settings.model,
        "minimumAccuracy": settings.minimum_accuracy,
        "figures": figures,
        "pairs": {split: found.to_json() for split, found in counts.items()},
    }
