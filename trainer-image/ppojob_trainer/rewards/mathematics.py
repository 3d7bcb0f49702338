r"""Whether a response's final answer equals the ground truth as mathematics, not as text.

The answer is what the last \boxed{} holds; else what stands behind the last `####`, or behind "answer is" or
"answer:"; else the whole text where it is an expression; else the last number in it.
"""

import math
import re
from collections.abc import Iterator
from fractions import Fraction

from ppojob_trainer.rewards.arithmetic import MAX_CHARACTERS, Value, value_of

_TOLERANCE = 1e-6
"""Relative, where one of the two is no finite decimal: roots, pi, thirds that were rounded."""

_BOXES = 10
"""The last ones are looked at."""

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_MARKED = re.compile(r"####\s*([^\n]+)")
_SAID = re.compile(r"(?i)\banswer\s*(?:is|:|=)\s*:?\s*([^\n]+)")
_NUMBER = re.compile(r"-?\$?-?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)(?:\s*/\s*\d+)?(?:\s*\\?%)?")
_THOUSANDS = re.compile(r"(?<![\d.])(\d{1,3}(?:,\d{3})+)(?![\d,])")
_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mbox|operatorname)\s*\{([^{}]*)\}")
_NOISE = re.compile(r"\\(?:left|right|displaystyle)(?![a-zA-Z])|\\[!,;: ]|\^\s*\{?\s*\\(?:circ|degree)\s*\}?|\\\$|\$|~")
_ASSIGNED = re.compile(r"^\s*[a-zA-Z]\s*=\s*")
_UNIT = re.compile(r"(?<=[\d)}%])\s+[a-zA-Z][a-zA-Z .]*$")
_PERCENT = re.compile(r"\\?%\s*$")
_BRACKETS = {"(": ")", "[": "]"}


def math_equality(response: str, ground_truth: str) -> float:
    """1.0 where the final answers are the same number, expression, tuple or list; else 0.0."""
    answer = final_answer(response)
    expected = marked_answer(ground_truth) or ground_truth
    return float(answer is not None and same(answer, expected))


def final_answer(response: str) -> str | None:
    """As the module says; None where there is none."""
    marked = marked_answer(response)
    if marked is not None:
        return marked
    whole = response.strip()
    if len(whole) <= MAX_CHARACTERS and (list(_values(_plain(whole))) or _parts(_plain(whole)) or " " not in whole):
        return whole
    numbers = _NUMBER.findall(response)
    return numbers[-1] if numbers else None


def marked_answer(text: str) -> str | None:
    """The answer that the text itself calls so."""
    boxed = _last_box(text)
    if boxed is not None:
        return boxed
    for pattern in (_MARKED, _SAID):
        if found := pattern.findall(text):
            return _sentence(found[-1])
    return None


def same(one: str, other: str) -> bool:
    """Whether two answers are equal. Percent signs may be left out or worked out: 50%, 50 and 0.5."""
    first, second = _plain(one), _plain(other)
    if not first or not second:
        return False
    if first.replace(" ", "") == second.replace(" ", ""):
        return True
    parts, others = _parts(first), _parts(second)
    if parts is not None and others is not None:
        return (
            parts[0] == others[0]
            and len(parts[1]) == len(others[1])
            and all(same(a, b) for a, b in zip(parts[1], others[1], strict=True))
        )
    if _PERCENT.search(first) and _PERCENT.search(second):
        first, second = _PERCENT.sub("", first), _PERCENT.sub("", second)
    return any(_close(a, b) for a in _values(first) for b in _values(second))


def _last_box(text: str) -> str | None:
    """Content of the last box whose braces are closed."""
    for start in reversed([found.end() for found in _BOX.finditer(text)][-_BOXES:]):
        depth = 1
        for position in range(start, min(len(text), start + MAX_CHARACTERS)):
            depth += {"{": 1, "}": -1}.get(text[position], 0)
            if depth == 0:
                return text[start:position]
    return None


def _sentence(text: str) -> str:
    """Up to the end of the sentence: a full stop or comma that is not inside a number."""
    cut = re.split(r"[.;](?=\s|$)|,(?=\s)(?![^()\[\]]*[)\]])", text.strip(), maxsplit=1)[0]
    return cut.strip()


def _plain(text: str) -> str:
    """Without what only looks: dollar signs, spacing, units, thousands separators, an assignment."""
    text = _NOISE.sub(" ", _TEXT.sub(r" \1", text[: 4 * MAX_CHARACTERS])).strip().rstrip(".").strip()
    text = text.replace("\\{", "{").replace("\\}", "}").replace("\u2212", "-").replace("\u00d7", "*")
    text = _ASSIGNED.sub("", _UNIT.sub("", text))
    if not _parts_like(text):
        text = _THOUSANDS.sub(lambda found: found.group(1).replace(",", ""), text)
    return text.strip()


def _parts_like(text: str) -> bool:
    return text[:1] in _BRACKETS and text[-1:] in {")", "]"} and "," in text


def _parts(text: str) -> tuple[str, list[str]] | None:
    """Brackets and elements of a tuple, an interval or a list with commas; None for anything else."""
    brackets, inner = "", text
    if _parts_like(text):
        brackets, inner = text[0] + text[-1], text[1:-1]
    elements, depth, start = [], 0, 0
    for position, character in enumerate(inner):
        depth += (character in "([{") - (character in ")]}")
        if depth < 0:
            return None
        if character == "," and depth == 0:
            elements.append(inner[start:position])
            start = position + 1
    elements.append(inner[start:])
    if len(elements) < 2 or not all(element.strip() for element in elements):
        return None
    return brackets, [element.strip() for element in elements]


def _values(text: str) -> Iterator[Value]:
    """What the text may stand for; a percentage is both the number before the sign and a hundredth of it."""
    percent = _PERCENT.search(text)
    value = value_of(_PERCENT.sub("", text) if percent else text)
    if value is None:
        return
    yield value
    if percent:
        yield value / 100


def _close(one: Value, other: Value) -> bool:
    if _decimal(one) and _decimal(other):
        return one == other
    return math.isclose(float(one), float(other), rel_tol=_TOLERANCE, abs_tol=1e-12)


def _decimal(value: Value) -> bool:
    """Whether it can be written out as a decimal."""
    if not isinstance(value, Fraction):
        return False
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1
