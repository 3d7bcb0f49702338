"""The figures of a step that verl does not log, as `ppojob_contract.figures` defines them. Pure."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ppojob_contract.figures import FIGURES


@dataclass(frozen=True, slots=True)
class Samples:
    """A step's samples without padding, in one order; `scores` before any KL penalty."""

    groups: Sequence[str]
    """The prompt that each belongs to."""
    scores: Sequence[float]
    lengths: Sequence[int]
    """Response tokens."""
    failed: Sequence[bool]
    """Whether the reward function failed on it."""


def step_figures(
    verl: Mapping[str, float],
    samples: Samples,
    *,
    missing: int,
    max_response_length: int,
    grouped: bool,
    devices: int,
    kl: float | None = None,
    device_memory: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, float]:
    """All figures of one step row. What cannot be computed is absent, never a made-up number.

    `missing`: samples asked for that never came; `kl` and `device_memory` (figures by name) are measured by the caller.
    """
    figures = {
        name: verl[figure.verl_key] for name, figure in FIGURES.items() if figure.verl_key and figure.verl_key in verl
    }
    figures |= reward_spread(samples, grouped=grouped) | response_lengths(samples.lengths, max_response_length)
    figures["failedPromptFraction"] = failed_fraction(samples, missing)
    coefficient = verl.get("actor/reward_kl_penalty_coeff", verl.get("actor/kl_coef"))
    throughput = verl.get("perf/throughput")
    optional = {
        "kl": kl,
        "klCoefficient": coefficient,
        "tokensPerSecond": None if throughput is None else throughput * devices,
    }
    return {**figures, **device_memory, **{name: value for name, value in optional.items() if value is not None}}


def reward_spread(samples: Samples, *, grouped: bool) -> dict[str, float]:
    """Of the samples that have an answer, as verl's `critic/score` (metric_utils.py `compute_data_metrics`)."""
    groups: dict[str, list[float]] = defaultdict(list)
    for group, score, length in zip(samples.groups, samples.scores, samples.lengths, strict=True):
        if length > 0:
            groups[group].append(score)
    scores = [score for group in groups.values() for score in group]
    if not scores:
        return {}
    spread = {"rewardStd": population_std(scores)}
    if grouped:
        deviations = [population_std(group) for group in groups.values()]
        spread["rewardGroupStd"] = math.fsum(deviations) / len(deviations)
        spread["zeroVarianceGroupFraction"] = sum(len(set(group)) == 1 for group in groups.values()) / len(groups)
    return spread


def response_lengths(lengths: Sequence[int], limit: int) -> dict[str, float]:
    """Tenth percentile (nearest rank) and the share of responses that reached `limit` tokens."""
    if not lengths:
        return {}
    return {
        "responseLengthP10": float(sorted(lengths)[max(0, math.ceil(len(lengths) / 10) - 1)]),
        "responseClippedFraction": sum(length >= limit for length in lengths) / len(lengths),
    }


def failed_fraction(samples: Samples, missing: int) -> float:
    """Share of the samples asked for that never came (`missing`) or whose reward function failed."""
    asked = len(samples.groups) + missing
    return (missing + sum(samples.failed)) / asked if asked else 0.0


def validation_reward(verl: Mapping[str, float]) -> float | None:
    """Mean over data sources of `val-core/<source>/<variable>/mean@<n>`."""
    means = [value for key, value in verl.items() if key.startswith("val-core/") and "/mean@" in key]
    return math.fsum(means) / len(means) if means else None


def population_std(values: Sequence[float]) -> float:
    """NaN where a value is not finite, as a mean would be."""
    if not all(map(math.isfinite, values)):
        return math.nan
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
