# mypy: disable-error-code="import, misc, no-untyped-call, untyped-decorator, attr-defined, union-attr, arg-type"
"""A step's samples as they lie in TransferQueue (verl `trainer/ppo/v1/agent_loop_tq.py` writes them).

Keys are `<prompt uid>_<session>_<output>`; padding rows carry the tag `is_padding`.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import transfer_queue as tq

from ppojob_trainer.figures import Samples
from ppojob_trainer.rewards.terms import ERROR_KEY, FAILED_KEY, TERM_PREFIX
from ppojob_trainer.rows import ROW

_FIELDS = (
    "rm_scores",
    "response_mask",
    "old_log_probs",
    "ref_log_prob",
    "extra_fields",
    "prompts",
    "responses",
    "data_source",
    "index",
    "reward_model",
    ROW,
)


class Batch:
    """What was generated for one step or one validation, without padding; fetched at once, since verl drops it."""

    def __init__(self, batch: Any) -> None:
        kept = [(key, tag) for key, tag in zip(batch.keys, batch.tags, strict=True) if not tag.get("is_padding")]
        self._keys = [key for key, _ in kept]
        self._lengths = [int(tag["response_len"]) for _, tag in kept]
        self._data = (
            tq.kv_batch_get(keys=self._keys, partition_id=batch.partition_id, select_fields=list(_FIELDS))
            if kept
            else {}
        )

    @property
    def sessions(self) -> int:
        """Answers that came, of several outputs of one conversation only one."""
        return len({key.rsplit("_", 1)[0] for key in self._keys})

    def samples(self) -> Samples:
        if not self._keys:
            return Samples(groups=[], scores=[], lengths=[], failed=[])
        return Samples(
            groups=[key.split("_")[0] for key in self._keys],
            scores=self._scores(),
            lengths=self._lengths,
            failed=[bool(info.get(FAILED_KEY)) for info in self._infos()],
        )

    def parts(self) -> dict[str, float]:
        """Of each reward term, the mean of its own score."""
        parts: dict[str, list[float]] = defaultdict(list)
        for info in self._infos() if self._keys else ():
            for name, value in info.items():
                if name.startswith(TERM_PREFIX):
                    parts[name.removeprefix(TERM_PREFIX)].append(float(value))
        return {name: math.fsum(values) / len(values) for name, values in parts.items()}

    def reward_errors(self) -> list[str]:
        """What reward terms said when they failed, each with its term's name before it."""
        return [str(error) for info in self._infos() if (error := info.get(ERROR_KEY))] if self._keys else []

    def kl(self) -> float | None:
        """Mean over all response tokens; None without a reference, or without any token."""
        rows = self._kl_rows()
        if rows is None:
            return None
        tokens = torch.cat(rows)
        return float(tokens.mean()) if len(tokens) else None

    def lines(self, tokenizer: Any, max_response_length: int) -> Iterator[dict[str, Any]]:
        """Each sample as its line in a file."""
        if not self._keys:
            return
        prompts, responses = self._tokens("prompts"), self._tokens("responses")
        prompt_texts = tokenizer.batch_decode(prompts, skip_special_tokens=True)
        response_texts = tokenizer.batch_decode(responses, skip_special_tokens=True)
        scores, infos, kl = self._scores(), self._infos(), self._kl_rows()
        rows, indices, sources = self._plain(ROW), self._plain("index"), self._plain("data_source")
        truths = [
            item.get("ground_truth") if isinstance(item, Mapping) else None for item in self._plain("reward_model")
        ]
        for position, key in enumerate(self._keys):
            group, session, output = key.rsplit("_", 2)
            length, info = self._lengths[position], infos[position]
            clipped = length >= max_response_length
            last = responses[position][-1] if responses[position] else None
            yield {
                "row": rows[position],
                "index": indices[position],
                "dataSource": sources[position],
                "group": group,
                "session": int(session),
                "output": int(output),
                "prompt": prompt_texts[position],
                "response": response_texts[position],
                "groundTruth": truths[position],
                "reward": scores[position],
                "parts": {
                    name.removeprefix(TERM_PREFIX): value
                    for name, value in info.items()
                    if name.startswith(TERM_PREFIX)
                },
                "rewardFailed": bool(info.get(FAILED_KEY)),
                "rewardError": info.get(ERROR_KEY) or None,
                "kl": None if kl is None or not len(kl[position]) else float(kl[position].mean()),
                "promptLength": len(prompts[position]),
                "responseLength": length,
                "clipped": clipped,
                "finish": "stop" if last == tokenizer.eos_token_id else "length" if clipped else None,
            }

    def _scores(self) -> list[float]:
        return [float(row.sum()) for row in self._data["rm_scores"].unbind()]

    def _infos(self) -> list[Mapping[str, Any]]:
        """What the reward function said of each sample."""
        extras = self._plain("extra_fields")
        infos = (extra.get("reward_extra_info") if isinstance(extra, Mapping) else None for extra in extras)
        return [info if isinstance(info, Mapping) else {} for info in infos]

    def _kl_rows(self) -> list[torch.Tensor] | None:
        """Of each sample, the k3 estimate of each response token."""
        if "ref_log_prob" not in self._data:
            return None
        fields = (self._data[name].unbind() for name in ("old_log_probs", "ref_log_prob", "response_mask"))
        return [k3(old, reference)[mask.bool()] for old, reference, mask in zip(*fields, strict=True)]

    def _tokens(self, field: str) -> list[list[int]]:
        return [row.tolist() for row in self._data[field].unbind()]

    def _plain(self, field: str) -> list[Any]:
        """Values that are not tensors; None where there is no such field."""
        return self._data.get(field).tolist() if field in self._data else [None] * len(self._keys)


def k3(old: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Of each token, the k3 estimate of KL(policy || reference).

    k3 = exp(d) - d - 1 with d = reference - old (Schulman, "Approximating KL Divergence"). In double precision: d is
    small and the difference of nearly equal numbers is what is left.
    """
    difference = reference.double() - old.double()
    return torch.expm1(difference) - difference
