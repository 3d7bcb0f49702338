# mypy: disable-error-code="import, misc, no-untyped-call, attr-defined"
"""What each process does that answers for one of the models; `work` is run by `gang`."""

from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from ppojob_trainer.stages.conversations import require_padding
from ppojob_trainer.stages.evaluate import replies
from ppojob_trainer.stages.evaluate.answering import Generator, answered
from ppojob_trainer.stages.evaluate.questions import Question
from ppojob_trainer.stages.evaluate.settings import Engine, EvaluateSettings

BATCH = {Engine.TRANSFORMERS: 16, Engine.VLLM: 256}
"""Questions answered together, and lost by a kill. vLLM makes its own batches of them."""


def work(task: dict[str, Any]) -> None:
    """Answers this process's share of the questions and keeps every batch."""
    settings = EvaluateSettings.from_json(task["settings"])
    questions = [Question.from_json(value) for value in task["questions"]]
    rank, ranks, folder, side = int(task["rank"]), int(task["ranks"]), Path(task["work"]), task["side"]
    there = replies.kept(folder, side)
    todo = [
        batch
        for batch in replies.batches(questions, BATCH[settings.engine], rank, ranks)
        if any(question.number not in there for question in batch)
    ]
    if not todo:
        return
    tokenizer = AutoTokenizer.from_pretrained(task["model"], trust_remote_code=settings.trust_remote_code)
    require_padding(tokenizer, task["model"])
    model = _generator(settings, task["model"], tokenizer)
    for batch in todo:
        replies.keep(replies.file_of(folder, side, rank), answered(batch, model, tokenizer, settings.seed))


def _generator(settings: EvaluateSettings, model: str, tokenizer: Any) -> Generator:
    """Both import what only one image has."""
    if settings.engine is Engine.VLLM:
        from ppojob_trainer.stages.evaluate.vllm_generator import VllmGenerator  # noqa: PLC0415

        return VllmGenerator(settings, model)
    from ppojob_trainer.stages.evaluate.transformers_generator import TransformersGenerator  # noqa: PLC0415

    return TransformersGenerator(settings, model, tokenizer)
