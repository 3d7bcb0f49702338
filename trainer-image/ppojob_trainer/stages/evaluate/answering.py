"""A model answers questions, turn after turn. No torch in here."""

import logging
from typing import Any, Protocol

from ppojob_trainer.stages.conversations import Conversation
from ppojob_trainer.stages.evaluate.questions import Question
from ppojob_trainer.stages.evaluate.replies import Reply

log = logging.getLogger(__name__)


class Generator(Protocol):
    """A model that answers."""

    limit: int
    """Tokens that it can hold, of prompt and answer together."""

    def generate(self, prompts: list[list[int]], seed: int) -> list[list[int]]:
        """Tokens of the answers, without the end token."""


def answered(batch: list[Question], model: Generator, tokenizer: Any, seed: int) -> list[Reply]:
    """Turn after turn, each in the light of the model's own answers before it."""
    texts: dict[int, list[str]] = {question.number: [] for question in batch}
    tokens: dict[int, list[int]] = {question.number: [] for question in batch}
    for turn in range(max(question.turns for question in batch)):
        asked = [question for question in batch if question.turns > turn]
        prompts = tokens_of(tokenizer, [question.prompt(texts[question.number]) for question in asked])
        answers = _within_limit(prompts, model, seed + batch[0].number + turn)
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


def _within_limit(prompts: list[list[int]], model: Generator, seed: int) -> list[list[int]]:
    """Nothing is said to a prompt that leaves no room: one conversation that has grown too long (a garbled answer has
    more tokens when it is read again than when it was written) must not end the others.
    """
    fitting = [prompt for prompt in prompts if len(prompt) < model.limit]
    if len(fitting) < len(prompts):
        log.warning("%d conversations leave no room for an answer", len(prompts) - len(fitting))
    answers = iter(model.generate(fitting, seed) if fitting else [])
    return [next(answers) if len(prompt) < model.limit else [] for prompt in prompts]
