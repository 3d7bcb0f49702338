"""What verl calls: `reward.custom_reward_function` (verl `trainer/ppo/reward.py`, `get_custom_reward_fn`)."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ppojob_trainer.rewards.terms import Term, decode, total


def compute_score(
    data_source: Any = None,
    solution_str: str = "",
    ground_truth: Any = None,
    extra_info: Mapping[str, Any] | None = None,
    *,
    terms: str,
    **_: Any,
) -> dict[str, float]:
    """`terms` is what `terms.encode` made; it comes with every call, so it is decoded once a process."""
    return total(_terms(terms), data_source, solution_str, ground_truth, extra_info)


@lru_cache(maxsize=4)
def _terms(text: str) -> tuple[Term, ...]:
    return tuple(decode(text))
