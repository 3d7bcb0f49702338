"""A user's own function as a recipe."""

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ppojob_trainer.errors import ConfigError
from ppojob_trainer.stages.prepare.columns import messages, optional_text, text
from ppojob_trainer.stages.prepare.rows import Made, Pair, Prompt, RowError
from ppojob_trainer.stages.prepare.settings import Function, Source


def by_function(source: Source) -> Callable[[Mapping[str, Any]], Made]:
    """Calls it with each row. It gives a mapping, a list of such, or None to leave the row out.

    A mapping has `prompt` (text or messages) and either `answer` (may be missing) or `chosen` and `rejected`.
    What it raises makes the row a bad one.
    """
    if source.function is None:
        raise ConfigError(f"source {source.name}: recipe Function needs `function`")
    function = load(source.function)

    def make(row: Mapping[str, Any]) -> Made:
        try:
            given = function(dict(row))
        except Exception as error:
            raise RowError(f"the function raised {type(error).__name__}: {error}") from error
        found = [given] if isinstance(given, Mapping) else [] if given is None else given
        if not isinstance(found, Sequence) or not all(isinstance(item, Mapping) for item in found):
            raise RowError(f"the function gave a {type(given).__name__}, not a mapping, a list of them or None")
        prompts = tuple(_prompt(item) for item in found if source.prompts)
        pairs = tuple(_pair(item) for item in found if source.pairs)
        return Made(prompts=prompts, pairs=pairs)

    return make


def load(function: Function) -> Callable[[dict[str, Any]], Any]:
    """Raises ConfigError that names file and function."""
    path = Path(function.path)
    spec = importlib.util.spec_from_file_location("ppojob_prepare_function", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ConfigError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # a dataclass looks its own module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    found = getattr(module, function.name, None)
    if not callable(found):
        raise ConfigError(f"{path} has no function {function.name!r}")
    return found  # type: ignore[no-any-return]


def _prompt(item: Mapping[str, Any]) -> Prompt:
    ability = item.get("ability")
    return Prompt(
        messages=messages(item, "prompt"),
        ground_truth=optional_text(item, "answer"),
        ability=None if ability is None else str(ability),
    )


def _pair(item: Mapping[str, Any]) -> Pair:
    chosen, rejected = text(item, "chosen"), text(item, "rejected")
    if chosen == rejected:
        raise RowError("chosen and rejected are the same: nothing is preferred")
    return Pair(messages=messages(item, "prompt"), chosen=chosen, rejected=rejected)
