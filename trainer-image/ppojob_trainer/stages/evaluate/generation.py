# mypy: disable-error-code="import, misc, no-untyped-call, attr-defined"
"""What each process does that answers for one of the models; `work` is run by `gang`."""

from pathlib import Path
from typing import Any, Protocol

from transformers import AutoTokenizer

from ppojob_trainer.stages.conversations import Conversation, require_padding
from ppojob_trainer.stages.evaluate import replies
from ppojob_trainer.stages.evaluate.questions import Question
from ppojob_trainer.stages.evaluate.replies import Reply
from ppojob_trainer.stages.evaluate.settings import Engine, EvaluateSettings

BATCH = {Engine.TRANSFORMERS: 16, Engine.VLLM: 256}
"""Questions answered together, and lost by a kill. vLLM makes its own batches of them."""


class Generator(Protocol):
    """A model that answers."""

    def generate(self, prompts: list[list[int]], seed: int) -> list[list[int]]:
        """Tokens of the answers, without the end token."""


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
    turns = max(question.turns for question in questions)
    model = _generator(settings, task["model"], tokenizer, turns)
    for batch in todo:
        replies.keep(replies.file_of(folder, side, rank), answered(batch, model, tokenizer, settings.seed))


def answered(batch: list[Question], model: Generator, tokenizer: Any, seed: int) -> list[Reply]:
    """Turn after turn, each in the light of the model's own answers before it."""
    texts: dict[int, list[str]] = {question.number: [] for question in batch}
    tokens: dict[int, list[int]] = {question.number: [] for question in batch}
    for turn in range(max(question.turns for question in batch)):
        asked = [question for question in batch if question.turns > turn]
        prompts = [question.prompt(texts[question.number]) for question in asked]
        answers = model.generate(tokens_of(tokenizer, prompts), seed + batch[0].number + turn)
        for question, answer in zip(asked, answers, strict=True):
            texts[question.number].append(tokenizer.decode(answer, skip_special_tokens=True))
            tokens[question.number].append(len(answer))
    return [Reply(number, tuple(texts[number]), tuple(tokens[number])) for number in texts]


def tokens_of(tokenizer: Any, prompts: list[Conversation]) -> list[list[int]]:
    """As in training: the chat template with the prompt for an answer."""
    found: list[list[int]] = tokenizer.apply_chat_template(
        prompts, add_generation_prompt=True, tokenize=True, return_dict=False
    )
    return found


def _generator(settings: EvaluateSettings, model: str, tokenizer: Any, turns: int) -> Generator:
    """Both import what only one image has."""
    if settings.engine is Engine.VLLM:
        from ppojob_trainer.stages.evaluate.vllm_generator import VllmGenerator  # noqa: PLC0415

        return VllmGenerator(settings, model, turns)
    from ppojob_trainer.stages.evaluate.transformers_generator import TransformersGenerator  # noqa: PLC0415

    return TransformersGenerator(settings, model, tokenizer)
