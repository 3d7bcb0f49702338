"""Rewards that are computed from the response alone, without a model."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from ppojob_trainer.rewards.answers import Answer
from ppojob_trainer.rewards.mathematics import math_equality

Rule = Callable[[Answer], float]

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_MARKED = re.compile(r"####\s*\$?\s*(-?\d[\d,]*(?:\.\d+)?)")


def rule(spec: Mapping[str, Any]) -> Rule:
    """The rule that `spec` describes. Raises ValueError for one that does not exist or cannot work."""
    match spec.get("type"):
        case "GSM8K":
            return by_text(gsm8k(str(spec.get("format", "Flexible"))))
        case "MathEquality":
            return by_text(math_equality)
        case "ExactMatch":
            return by_text(exact_match)
        case "Regex":
            return by_text(regex(str(spec["pattern"]), str(spec.get("mode", "Match"))))
        case "Overlong":
            return overlong(int(spec["maxTokens"]), int(spec["bufferTokens"]))
        case other:
            raise ValueError(f"unknown rule {other!r}")


def by_text(score: Callable[[str, str], float]) -> Rule:
    """A rule from response and ground truth."""
    return lambda answer: score(answer.response, answer.truth)


def gsm8k(form: str) -> Callable[[str, str], float]:
    """1.0 where the answer equals the ground truth as a number.

    The answer is the number behind the last `####`; `Flexible` takes the last number where there is none (verl's own
    scorer, `utils/reward_score/gsm8k.py`, has both and is strict unless told otherwise).
    """
    if form not in {"Strict", "Flexible"}:
        raise ValueError(f"unknown format {form!r}")

    def score(response: str, ground_truth: str) -> float:
        answer, expected = _answer(response, strict=form == "Strict"), _answer(ground_truth, strict=False)
        return float(answer is not None and answer == expected)

    return score


def exact_match(response: str, ground_truth: str) -> float:
    """1.0 where the response without surrounding white space is the ground truth."""
    return float(response.strip() == ground_truth.strip())


def regex(pattern: str, mode: str) -> Callable[[str, str], float]:
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


def overlong(max_tokens: int, buffer_tokens: int) -> Rule:
    """0 up to `max_tokens - buffer_tokens`, from there in a straight line down to -1 at `max_tokens`.

    DAPO's soft overlong punishment (Yu et al. 2025, equation 13; verl `reward_manager/dapo.py`); its factor is the
    term's weight.
    """
    if not 0 < buffer_tokens <= max_tokens:
        raise ValueError(f"bufferTokens {buffer_tokens} is not between 1 and the {max_tokens} tokens of a response")

    def score(answer: Answer) -> float:
        if answer.tokens is None:
            raise ValueError("the length of the response in tokens is not known here")
        exceeding = answer.tokens - (max_tokens - buffer_tokens)
        return min(0.0, max(-1.0, -exceeding / buffer_tokens))

    return score


def _share(pattern: re.Pattern[str], response: str) -> float:
    if not response:
        return 0.0
    return sum(len(match.group()) for match in pattern.finditer(response)) / len(response)


def _answer(text: str, *, strict: bool) -> float | None:
    marked = _MARKED.findall(text)
    found = marked if marked or strict else _NUMBER.findall(text)
    return float(found[-1].replace(",", "")) if found else None
