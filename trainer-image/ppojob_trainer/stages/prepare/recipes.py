"""What each recipe makes of a row."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from ppojob_contract.preparation import Recipe
from ppojob_trainer.stages.prepare.columns import messages, optional_text, text
from ppojob_trainer.stages.prepare.rows import Made, Message, Pair, Prompt, RowError
from ppojob_trainer.stages.prepare.settings import Source
from ppojob_trainer.stages.prepare.user_function import by_function

Make = Callable[[Mapping[str, Any]], Made]

GSM8K_INSTRUCTION = 'Let\'s think step by step and output the final answer after "####".'
"""verl's (`examples/data_preprocess/gsm8k.py`), which the rule `GSM8K` is made for."""

_TURN = re.compile(r"\n\n(Human|Assistant):")
_ROLES = {"Human": "user", "Assistant": "assistant"}


def recipe(source: Source) -> Make:
    """Of a source. Raises ConfigError for a user's function that cannot be loaded."""
    match source.recipe:
        case Recipe.GSM8K:
            return gsm8k
        case Recipe.HHRLHF:
            return hh_rlhf
        case Recipe.PROMPTS:
            return lambda row: prompts(row, source.prompt_column, source.answer_column)
        case Recipe.PAIRS:
            return lambda row: pairs(row, source.prompt_column)
        case Recipe.FUNCTION:
            return by_function(source)


def gsm8k(row: Mapping[str, Any]) -> Made:
    """`question` and `answer`, whose result stands behind `####`."""
    question, answer = text(row, "question"), text(row, "answer")
    _, mark, result = answer.rpartition("####")
    result = result.strip().replace(",", "").replace("$", "")
    if not mark or not result:
        raise RowError("column 'answer' has no result behind '####'")
    asked: list[Message] = [{"role": "user", "content": f"{question} {GSM8K_INSTRUCTION}"}]
    return Made(prompts=(Prompt(messages=asked, ground_truth=result),))


def hh_rlhf(row: Mapping[str, Any]) -> Made:
    """`chosen` and `rejected`: the same dialogue with different last answers."""
    before, chosen = _dialogue(text(row, "chosen"), "chosen")
    same, rejected = _dialogue(text(row, "rejected"), "rejected")
    if before != same:
        raise RowError("chosen and rejected differ before the last answer: they are answers to different dialogues")
    return _preference(before, chosen, rejected)


def prompts(row: Mapping[str, Any], prompt_column: str, answer_column: str) -> Made:
    """A text or a list of messages, and an answer where there is one."""
    asked = messages(row, prompt_column)
    return Made(prompts=(Prompt(messages=asked, ground_truth=optional_text(row, answer_column)),))


def pairs(row: Mapping[str, Any], prompt_column: str) -> Made:
    """A prompt with `chosen` and `rejected`, each a text or a list of messages."""
    asked = messages(row, prompt_column)
    return _preference(asked, answer(row, "chosen", asked), answer(row, "rejected", asked))


def answer(row: Mapping[str, Any], column: str, asked: Sequence[Message]) -> str:
    """Of a text, or the last of messages, which may begin with the prompt again."""
    if isinstance(row.get(column), str):
        return text(row, column)
    said = messages(row, column, last="assistant")
    before = said[:-1]
    if before and list(before) != list(asked):
        raise RowError(f"column {column!r} begins with another prompt than the row's")
    return said[-1]["content"]


def _preference(asked: Sequence[Message], chosen: str, rejected: str) -> Made:
    if chosen == rejected:
        raise RowError("chosen and rejected are the same: nothing is preferred")
    return Made(
        prompts=(Prompt(messages=asked, style="model"),),
        pairs=(Pair(messages=asked, chosen=chosen, rejected=rejected),),
    )


def _dialogue(whole: str, column: str) -> tuple[list[Message], str]:
    """What came before, and the last answer. Turns of one speaker in a row are one: the real files have such."""
    parts = _TURN.split(whole)
    if parts[0].strip() or len(parts) < 2:
        raise RowError(f"column {column!r} is no dialogue: it does not begin with two line breaks and 'Human:'")
    turns = [(_ROLES[speaker], said.strip()) for speaker, said in zip(parts[1::2], parts[2::2], strict=True)]
    joined: list[Message] = [
        {"role": role, "content": "\n\n".join(said for _, said in group if said)}
        for role, group in groupby(turns, key=lambda turn: turn[0])
    ]
    if joined[-1]["role"] != "assistant" or len(joined) < 2:
        raise RowError(f"column {column!r} does not end with an answer of the assistant")
    if empty := next((message["role"] for message in joined if not message["content"]), None):
        raise RowError(f"column {column!r} has an empty turn of the {empty}")
    return joined[:-1], joined[-1]["content"]
