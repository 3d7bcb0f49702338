"""A job's `reward.terms` made callable."""

import functools
import json
import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ppojob_trainer.redaction import redact
from ppojob_trainer.rewards.answers import Answer
from ppojob_trainer.rewards.functions import FunctionFailed, FunctionProcesses
from ppojob_trainer.rewards.models import in_engine, reward_model
from ppojob_trainer.rewards.rules import rule

log = logging.getLogger(__name__)

FAILED_KEY = "ppojob_failed"
"""In the result: 1.0 where a term raised; what `failedPromptFraction` counts."""

ERROR_KEY = "ppojob_error"
"""In the result: the term that raised and what it said, in one line; empty where none did."""

TERM_PREFIX = "term_"
"""In the result: before a term's name, its own score."""

Score = Callable[[Answer], float]


@dataclass(slots=True)
class Term:
    """One weighted term."""

    name: str
    weight: float
    score: Score
    load: Callable[[], None] = lambda: None
    """Makes ready what the first score needs. Raises what is wrong with it."""
    close: Callable[[], None] = lambda: None
    tried: bool = False
    """Whether it can be tried before training begins."""
    reported: bool = field(default=False)
    """Its first traceback has been logged."""


def encode(terms: Sequence[Mapping[str, Any]]) -> str:
    """The terms as one string that is safe in OmegaConf: a `$` can only be in a JSON string, where it has an escape."""
    return json.dumps(list(terms)).replace("$", "\\u0024")


@functools.lru_cache(maxsize=4)
def decode(text: str, engine_address: str | None = None) -> tuple[Term, ...]:
    """What `encode` made; it comes with every call and is decoded once a process. Raises ValueError or KeyError."""
    return tuple(build(spec, engine_address) for spec in json.loads(text))


def build(spec: Mapping[str, Any], engine_address: str | None = None) -> Term:
    """The term that `spec` describes; exactly one kind of those this trainer knows. Raises ValueError otherwise.

    `engine_address`: where verl serves the reward model, if it does.
    """
    name, weight = str(spec["name"]), float(spec.get("weight", 1.0))
    if isinstance(spec.get("rule"), Mapping):
        return Term(name, weight, rule(spec["rule"]), tried=True)
    if isinstance(spec.get("function"), Mapping):
        function = FunctionProcesses(spec["function"])
        return Term(name, weight, function, function.load, function.close, tried=True)
    if isinstance(spec.get("model"), Mapping):
        model = reward_model(spec["model"], engine_address)
        return Term(name, weight, model, model.load, model.close, tried=not in_engine(spec["model"]))
    raise ValueError(f"reward term {name!r} is of a kind that this trainer does not know")


def total(terms: Sequence[Term], answer: Answer) -> dict[str, float | str]:
    """`score` is the weighted sum, `term_<name>` each part; a term that raises counts as 0 and sets `FAILED_KEY`."""
    score, errors, parts = 0.0, [], {}
    for term in terms:
        try:
            part = float(term.score(answer))
        except Exception as error:
            part = 0.0
            errors.append(_told(term, error))
        parts[f"{TERM_PREFIX}{term.name}"] = part
        score += term.weight * part
    return {"score": score, FAILED_KEY: float(bool(errors)), ERROR_KEY: "; ".join(errors), **parts}


def _told(term: Term, error: Exception) -> str:
    """The error in one line; all of it goes to the log, once a process."""
    if not term.reported:
        term.reported = True
        text = getattr(error, "traceback", "") or traceback.format_exc()
        log.error("reward term %s failed (logged once a process):\n%s", term.name, redact(text))
    said, place = (error.said, error.place) if isinstance(error, FunctionFailed) else (_said(error), "")
    return _line(f"{term.name}: {said}") + _line(place)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _line(text: str) -> str:
    """Cut behind the redaction: half a secret would not be known as one."""
    lead = " " if text.startswith(" ") else ""
    line = lead + " ".join(redact(text).split())
    return line if len(line) <= ERROR_CHARACTERS else f"{line[: ERROR_CHARACTERS - 1]}…"


ERROR_CHARACTERS = 400
"""Of what one term's error says, and so many of where it came from; a status shows no more."""
