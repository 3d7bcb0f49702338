# mypy: disable-error-code="import, misc, no-untyped-call, untyped-decorator, attr-defined, union-attr, arg-type"
"""A step's samples as they lie in TransferQueue (verl `trainer/ppo/v1/agent_loop_tq.py` writes them).

Keys are `<prompt uid>_<session>_<output>`; padding rows carry the tag `is_padding`.
"""

from collections.abc import Mapping
from typing import Any

import torch
import transfer_queue as tq

from ppojob_trainer.figures import Samples
from ppojob_trainer.rewards.terms import FAILED_KEY

_FIELDS = ["rm_scores", "response_mask", "old_log_probs", "ref_log_prob", "extra_fields"]


def read_samples(batch: Any) -> tuple[Samples, float | None]:
    """The samples without padding, and `kl`, which is None without a reference."""
    kept = [(key, tag) for key, tag in zip(batch.keys, batch.tags, strict=True) if not tag.get("is_padding")]
    if not kept:
        return Samples(groups=[], scores=[], lengths=[], failed=[]), None
    keys = [key for key, _ in kept]
    data = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=_FIELDS)
    samples = Samples(
        groups=[key.split("_")[0] for key in keys],
        scores=[float(row.sum()) for row in data["rm_scores"].unbind()],
        lengths=[int(tag["response_len"]) for _, tag in kept],
        failed=[_failed(extra) for extra in data["extra_fields"]],
    )
    if "ref_log_prob" not in data:
        return samples, None
    return samples, k3_mean(_flat(data["old_log_probs"]), _flat(data["ref_log_prob"]), _flat(data["response_mask"]))


def sessions(batch: Any) -> int:
    """Answers that came, of several outputs of one conversation only one."""
    real = [key for key, tag in zip(batch.keys, batch.tags, strict=True) if not tag.get("is_padding")]
    return len({key.rsplit("_", 1)[0] for key in real})


def k3_mean(old: torch.Tensor, reference: torch.Tensor, mask: torch.Tensor) -> float | None:
    """Mean over response tokens of the k3 estimate of KL(policy || reference); None where there is no token.

    k3 = exp(d) - d - 1 with d = reference - old (Schulman, "Approximating KL Divergence"). In double precision: d is
    small and the difference of nearly equal numbers is what is left.
    """
    chosen = mask.bool()
    if not bool(chosen.any()):
        return None
    difference = (reference.double() - old.double())[chosen]
    return float((torch.expm1(difference) - difference).mean())


def _flat(rows: torch.Tensor) -> torch.Tensor:
    return torch.cat([row.reshape(-1) for row in rows.unbind()])


def _failed(extra: Any) -> bool:
    extra = getattr(extra, "data", extra)  # tensordict may wrap what is not a tensor
    info = extra.get("reward_extra_info") if isinstance(extra, Mapping) else None
    return bool(info.get(FAILED_KEY)) if isinstance(info, Mapping) else False
