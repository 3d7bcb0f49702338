# mypy: disable-error-code="import, no-untyped-call, no-any-return"
"""How long a prompt is for the model: with its chat template, as verl counts (`utils/dataset/rl_dataset.py`)."""

from collections.abc import Callable, Sequence

from ppojob_trainer.errors import ConfigError
from ppojob_trainer.stages.prepare.rows import Message, RowError

Length = Callable[[Sequence[Message]], int]


def by_tokenizer(path: str, *, trust_remote_code: bool) -> Length:
    """Raises ConfigError for a model without a tokenizer or without a chat template."""
    from transformers import AutoTokenizer  # noqa: PLC0415 - takes seconds

    try:
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=trust_remote_code)
    except (OSError, ValueError) as error:
        raise ConfigError(f"the tokenizer of {path} cannot be loaded: {error}") from error
    if not getattr(tokenizer, "chat_template", None):
        raise ConfigError(f"the tokenizer of {path} has no chat template, which verl needs: take an instruction model")

    def length(messages: Sequence[Message]) -> int:
        try:
            return len(
                tokenizer.apply_chat_template(
                    [dict(message) for message in messages],
                    add_generation_prompt=True,
                    tokenize=True,
                    return_dict=False,
                )
            )
        except Exception as error:
            raise RowError(f"the model's chat template refuses it: {error}") from error

    return length
