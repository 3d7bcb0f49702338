# mypy: disable-error-code="import, misc, no-untyped-call, untyped-decorator, attr-defined"
"""Answers by transformers' own generation, for small models on processors."""

import sys
from typing import Any

import torch
from transformers import AutoModelForCausalLM, GenerationConfig

from ppojob_trainer.stages.evaluate.settings import EvaluateSettings
from ppojob_trainer.stages.scoring import device_of_this_process


class TransformersGenerator:
    """An `answering.Generator`."""

    def __init__(self, settings: EvaluateSettings, model: str, tokenizer: Any) -> None:
        self.device = device_of_this_process()
        self.model = (
            AutoModelForCausalLM.from_pretrained(
                model,
                trust_remote_code=settings.trust_remote_code,
                dtype=torch.bfloat16 if self.device == "cuda" else torch.float32,
            )
            .to(self.device)
            .eval()
        )
        self.limit = getattr(self.model.config.get_text_config(), "max_position_embeddings", sys.maxsize)
        self.padding = tokenizer.pad_token_id
        self.ends = _ends(self.model, tokenizer)
        sampling = settings.temperature > 0
        # Plain sampling, not what the model's own configuration has (top-k, repetition penalty): as in training.
        self.model.generation_config = GenerationConfig(
            max_new_tokens=settings.max_response_length,
            do_sample=sampling,
            temperature=settings.temperature if sampling else None,
            top_k=0 if sampling else None,
            top_p=1.0 if sampling else None,
            pad_token_id=self.padding,
            eos_token_id=sorted(self.ends),
        )

    @torch.inference_mode()
    def generate(self, prompts: list[list[int]], seed: int) -> list[list[int]]:
        torch.manual_seed(seed)
        width = max(len(prompt) for prompt in prompts)
        tokens = torch.full((len(prompts), width), self.padding)
        mask = torch.zeros((len(prompts), width), dtype=torch.long)
        for row, prompt in enumerate(prompts):
            tokens[row, width - len(prompt) :] = torch.tensor(prompt)
            mask[row, width - len(prompt) :] = 1
        found = self.model.generate(input_ids=tokens.to(self.device), attention_mask=mask.to(self.device))
        return [self._until_end(row) for row in found[:, width:].tolist()]

    def _until_end(self, row: list[int]) -> list[int]:
        for place, token in enumerate(row):
            if token in self.ends:
                return row[:place]
        return row


def _ends(model: Any, tokenizer: Any) -> set[int]:
    """The model's end tokens and the tokenizer's: a chat model ends a message with the latter."""
    end = model.generation_config.eos_token_id
    ends = set(end) if isinstance(end, list) else {end}
    return {token for token in ends | {tokenizer.eos_token_id} if token is not None}
