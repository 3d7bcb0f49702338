# mypy: disable-error-code="import, misc, no-untyped-call, untyped-decorator, attr-defined, union-attr, arg-type"
"""`python -m ppojob_trainer.toy FOLDER`: a model and data small enough to train on a processor in seconds.

A random Qwen2 of 0.1 M parameters with its tokenizer, and additions of two numbers with distinct prompts: 256 rows to
train, 32 others to validate. The same bytes at every build with the same library versions.
"""

import sys
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

VOCABULARY = 320
TRAIN_ROWS, VALIDATION_ROWS = 256, 32
_END, _START, _PAD = "<|im_end|>", "<|im_start|>", "<|endoftext|>"
_CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def main() -> None:
    """Writes `model/`, `train.parquet` and `validation.parquet` into the folder given."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(folder / "model")
    make_model(tokenizer).save_pretrained(folder / "model")
    rows = [_row(a, b) for a in range(17) for b in range(17)]
    # A fixed stride spreads both splits over all sums; 289 is not a multiple of it, so each row comes once.
    shuffled = [rows[(index * 112) % len(rows)] for index in range(len(rows))]
    pd.DataFrame(shuffled[:TRAIN_ROWS]).to_parquet(folder / "train.parquet")
    pd.DataFrame(shuffled[TRAIN_ROWS : TRAIN_ROWS + VALIDATION_ROWS]).to_parquet(folder / "validation.parquet")
    for path in folder.rglob("*.safetensors"):
        path.chmod(0o644)  # written for the owner alone, and the image's user is another


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE with a few merges of its own data."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[_PAD, _START, _END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    texts = [f"What is {a} + {b}? The answer is {a + b}." for a in range(30) for b in range(30)]
    tokenizer.train_from_iterator([*texts, *["system", "user", "assistant"] * 50], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=_END, pad_token=_PAD)
    fast.chat_template = _CHAT
    return fast


def make_model(tokenizer: PreTrainedTokenizerFast) -> Qwen2ForCausalLM:
    """Random weights from a fixed seed."""
    torch.manual_seed(0)
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=VOCABULARY,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=512,
            tie_word_embeddings=False,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def _row(a: int, b: int) -> dict[str, Any]:
    return {
        "data_source": "addition",
        "prompt": [{"role": "user", "content": f"What is {a} + {b}?"}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": str(a + b)},
        "extra_info": {"index": a * 17 + b},
    }


if __name__ == "__main__":
    main()
