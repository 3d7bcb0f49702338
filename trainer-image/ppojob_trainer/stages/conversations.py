"""Prompt and answer as a reward model and verl see them: one conversation, through the model's chat template."""

from collections.abc import Mapping, Sequence
from typing import Any

from ppojob_trainer.errors import ConfigError

Conversation = list[dict[str, str]]


def prompt_of(value: Any) -> Conversation:
    """A chat, or plain text as one message of the user's. Raises ValueError for anything else."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if not isinstance(value, Sequence) or isinstance(value, bytes):
        raise ValueError(f"a prompt is a text or a list of messages, not {type(value).__name__}")  # noqa: TRY004
    return [_message(item) for item in value]


def answered(prompt: Conversation, answer: str) -> Conversation:
    return [*prompt, {"role": "assistant", "content": answer}]


def ends(rows: list[list[int]], most: int | None) -> list[list[int]]:
    """The last `most` tokens of each: the answer is at the end."""
    return rows if most is None else [row[-most:] for row in rows]


def require_template(tokenizer: Any, model: str) -> None:
    """Raises ConfigError where the tokenizer cannot write a conversation."""
    if not getattr(tokenizer, "chat_template", None):
        raise ConfigError(
            f"the tokenizer of {model} has no chat template, so it is not said how a conversation is written; "
            "take an instruction-tuned model, or put a chat_template into its tokenizer_config.json"
        )


def require_padding(tokenizer: Any, model: str) -> None:
    """Sets the end token as padding where there is none. Raises ConfigError where both are missing."""
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.pad_token_id is None:
        raise ConfigError(f"the tokenizer of {model} has neither a padding nor an end token; set pad_token in it")


def _message(item: Any) -> dict[str, str]:
    if (
        not isinstance(item, Mapping)
        or not isinstance(item.get("role"), str)
        or not isinstance(item.get("content"), str)
    ):
        raise ValueError("a message of a prompt has the texts `role` and `content`")  # noqa: TRY004
    return {"role": item["role"], "content": item["content"]}
