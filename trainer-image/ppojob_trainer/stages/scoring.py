# mypy: disable-error-code="import, misc, no-untyped-call, untyped-decorator"
"""Rewards of conversations by a sequence-classification model with one label."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from ppojob_trainer.errors import ConfigError
from ppojob_trainer.stages.conversations import Conversation, ends, require_padding, require_template


class Scorer:
    """A reward model, loaded."""

    def __init__(self, model: Any, tokenizer: Any, device: str, max_length: int | None = None) -> None:
        self.model = model.to(device).eval()
        self.tokenizer = tokenizer
        self.device = device
        limits = (max_length, getattr(model.config.get_text_config(), "max_position_embeddings", None))
        self.max_length = min((limit for limit in limits if limit), default=None)
        """Tokens that the model may read."""

    @classmethod
    def load(cls, path: str | Path, *, trust_remote_code: bool, device: str, max_length: int | None = None) -> Self:
        """Raises ConfigError where it is not a reward model."""
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=trust_remote_code)
        require_template(tokenizer, str(path))
        require_padding(tokenizer, str(path))
        model, report = AutoModelForSequenceClassification.from_pretrained(
            path, trust_remote_code=trust_remote_code, dtype="auto", output_loading_info=True
        )
        if model.config.num_labels != 1 or report["missing_keys"]:
            raise ConfigError(
                f"{path} is not a reward model: one has a sequence-classification head of one label in its files"
            )
        model.config.get_text_config().pad_token_id = tokenizer.pad_token_id
        return cls(model, tokenizer, device, max_length)

    def encode(self, conversations: Sequence[Conversation]) -> list[list[int]]:
        """Of what is longer than the model may read, the end."""
        return ends(encode(self.tokenizer, conversations), self.max_length)

    @torch.inference_mode()
    def score(
        self, tokens: Sequence[Sequence[int]], batch_size: int, between: Callable[[], None] = lambda: None
    ) -> list[float]:
        """In the order given; `between` is called before each batch and may raise."""
        rewards: list[float] = [0.0] * len(tokens)
        order = sorted(range(len(tokens)), key=lambda index: len(tokens[index]))  # little padding
        for start in range(0, len(order), batch_size):
            between()
            chosen = order[start : start + batch_size]
            values = self._batch([tokens[index] for index in chosen])
            for index, value in zip(chosen, values, strict=True):
                rewards[index] = value
        return rewards

    def _batch(self, rows: list[Sequence[int]]) -> list[float]:
        width = max(len(row) for row in rows)
        ids = torch.full((len(rows), width), self.tokenizer.pad_token_id)
        mask = torch.zeros((len(rows), width), dtype=torch.long)
        for number, row in enumerate(rows):
            ids[number, : len(row)] = torch.tensor(row)
            mask[number, : len(row)] = 1
        output = self.model(input_ids=ids.to(self.device), attention_mask=mask.to(self.device), use_cache=False)
        return [float(value) for value in output.logits.squeeze(-1).float().cpu()]


def encode(tokenizer: Any, conversations: Sequence[Conversation]) -> list[list[int]]:
    """As TRL's RewardTrainer and verl's reward loop write a conversation: the template, without a generation prompt."""
    if not conversations:
        return []
    found: list[list[int]] = tokenizer.apply_chat_template(list(conversations), tokenize=True, return_dict=False)
    return found


def device_of_this_process() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"
