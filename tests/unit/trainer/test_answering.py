"""Turns of a conversation with a model that repeats itself."""

from typing import Any

import pytest

from ppojob_trainer.stages.evaluate.answering import answered
from ppojob_trainer.stages.evaluate.questions import Question


class Letters:
    """A tokenizer whose tokens are characters."""

    def apply_chat_template(self, talks: list[list[dict[str, str]]], **_: Any) -> list[list[int]]:
        return [[ord(letter) for message in talk for letter in message["content"]] for talk in talks]

    def decode(self, tokens: list[int], **_: Any) -> str:
        return "".join(map(chr, tokens))


class Echo:
    """Answers the last two characters; as an engine does, it refuses a batch with a prompt that is too long."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def generate(self, prompts: list[list[int]], seed: int) -> list[list[int]]:
        if not prompts or any(len(prompt) >= self.limit for prompt in prompts):
            raise ValueError("nothing to answer, or a prompt that is too long")
        return [prompt[-2:] for prompt in prompts]


def question(number: int, opening: str, *follow_ups: str) -> Question:
    return Question(
        number=number,
        where=f"row {number}",
        category="",
        opening=[{"role": "user", "content": opening}],
        follow_ups=follow_ups,
    )


def test_a_turn_goes_on_from_the_models_own_answer() -> None:
    first, second = answered([question(1, "abc", "d"), question(2, "xy")], Echo(100), Letters(), seed=0)
    assert (first.texts, first.tokens) == (("bc", "cd"), (2, 2))
    assert (second.texts, second.tokens) == (("xy",), (2,))


@pytest.mark.parametrize("limit", [5, 6, 7])
def test_a_conversation_without_room_gets_no_answer_and_ends_no_other(limit: int) -> None:
    batch = [question(1, "abc", "d"), question(2, "a", "b"), question(3, "x" * 9)]
    long, short, too_long = answered(batch, Echo(limit), Letters(), seed=0)
    assert long.texts == ("bc", "cd" if limit == 7 else "")
    assert short.texts == ("a", "ab")
    assert (too_long.texts, too_long.tokens) == (("",), (0,))


def test_all_may_be_too_long() -> None:
    assert answered([question(1, "abc")], Echo(3), Letters(), seed=0)[0].texts == ("",)
