"""A job's `reward.terms` made callable."""

import importlib.util
import json
import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ppojob_trainer.rewards.rules import rule

log = logging.getLogger(__name__)

FAILED_KEY = "ppojob_failed"
"""In the result: 1.0 where a term raised; what `failedPromptFraction` counts."""

TERM_PREFIX = "term_"
"""In the result: before a term's name, its own score."""

Score = Callable[[Any, str, Any, Mapping[str, Any] | None], float]


@dataclass(slots=True)
class Term:
    """One weighted term."""

    name: str
    weight: float
    score: Score
    reported: bool = field(default=False)
    """Its first traceback has been logged."""


def encode(terms: Sequence[Mapping[str, Any]]) -> str:
    """The terms as one string that is safe in OmegaConf: a `$` can only be in a JSON string, where it has an escape."""
    return json.dumps(list(terms)).replace("$", "\\u0024")


def decode(text: str) -> list[Term]:
    """Raises ValueError, KeyError or what importing a user's file raises."""
    return [build(spec) for spec in json.loads(text)]


def build(spec: Mapping[str, Any]) -> Term:
    """The term that `spec` describes; exactly one kind of those this trainer knows. Raises ValueError otherwise."""
    name, weight = str(spec["name"]), float(spec.get("weight", 1.0))
    if isinstance(spec.get("rule"), Mapping):
        by_rule = rule(spec["rule"])
        return Term(name, weight, lambda _source, response, truth, _extra: by_rule(response, _text(truth)))
    if isinstance(spec.get("function"), Mapping):
        return Term(name, weight, _user_function(name, spec["function"]))
    raise ValueError(f"reward term {name!r} is of a kind that this trainer does not know")


def total(
    terms: Sequence[Term], data_source: Any, response: str, ground_truth: Any, extra_info: Mapping[str, Any] | None
) -> dict[str, float]:
    """`score` is the weighted sum, `term_<name>` each part; a term that raises counts as 0 and sets `FAILED_KEY`."""
    result = {"score": 0.0, FAILED_KEY: 0.0}
    for term in terms:
        try:
            part = float(term.score(data_source, response, ground_truth, extra_info))
        except Exception:
            part = 0.0
            result[FAILED_KEY] = 1.0
            if not term.reported:
                term.reported = True
                log.error("reward term %s failed (logged once a process):\n%s", term.name, traceback.format_exc())  # noqa: TRY400
        result[f"{TERM_PREFIX}{term.name}"] = part
        result["score"] += term.weight * part
    return result


def _user_function(name: str, spec: Mapping[str, Any]) -> Score:
    path = Path(str(spec["path"]))
    module_spec = importlib.util.spec_from_file_location(f"ppojob_reward_{name.replace('-', '_')}", path)
    if module_spec is None or module_spec.loader is None or not path.is_file():
        raise ValueError(f"reward term {name!r}: {path} is not a Python file")
    module = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(module)
    function = getattr(module, str(spec.get("name", "compute")), None)
    if not callable(function):
        raise TypeError(f"reward term {name!r}: {path} has no function {spec.get('name', 'compute')!r}")

    def score(data_source: Any, response: str, ground_truth: Any, extra_info: Mapping[str, Any] | None) -> float:
        value = function(data_source, response, ground_truth, extra_info)
        return float(value["score"] if isinstance(value, Mapping) else value)

    return score


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
