"""Rewards that are computed from the response alone, without a model."""

import re
from collections.abc import Callable, Mapping
from typing import Any

Rule = Callable[[str, str], float]
"""From response and ground truth to a score."""

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_MARKED = re.compile(r"####\s*\$?\s*(-?\d[\d,]*(?:\.\d+)?)")


def rule(spec: Mapping[str, Any]) -> Rule:
    """The rule that `spec` describes. Raises ValueError for one that does not exist or cannot work."""
    match spec.get("type"):
        case "GSM8K":
            return gsm8k
        case "ExactMatch":
            return exact_match
        case "Regex":
            return regex(str(spec["pattern"]), str(spec.get("mode", "Match")))
        case other:
            raise ValueError(f"unknown rule {other!r}")


def gsm8k(response: str, ground_truth: str) -> float:
    """1.0 where the answer (after the last `####`, else the last number) equals the ground truth as a number."""
    answer, expected = _answer(response), _answer(ground_truth)
    return float(answer is not None and answer == expected)


def exact_match(response: str, ground_truth: str) -> float:
    """1.0 where the response without surrounding white space is the ground truth."""
    return float(response.strip() == ground_truth.strip())


def regex(pattern: str, mode: str) -> Rule:
    """`Match`: 1.0 where the pattern is found. `Share`: the share of the response's characters that matches cover."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"pattern {pattern!r}: {error}") from error
    match mode:
        case "Match":
            return lambda response, _: float(compiled.search(response) is not None)
        case "Share":
            return lambda response, _: _share(compiled, response)
        case other:
            raise ValueError(f"unknown mode {other!r}")


def _share(pattern: re.Pattern[str], response: str) -> float:
    if not response:
        return 0.0
    return sum(len(match.group()) for match in pattern.finditer(response)) / len(response)


def _answer(text: str) -> float | None:
    marked = _MARKED.findall(text)
    found = marked or _NUMBER.findall(text)
    return float(found[-1].replace(",", "")) if found else None
