"""Settings of verl's configuration as data: layers merged, keys checked against verl's tree, no text is parsed.

Hydra's override language is never used with values of the job: a value cannot become a key, a list or an
interpolation (`${…}` would read environment variables of the trainer).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ppojob_contract.managed import managed_reason
from ppojob_trainer.errors import ConfigError

Fields = Callable[[str], frozenset[str] | None]
"""Field names of the class that a `_target_` names; None where that is not known."""


def flatten(overrides: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and their leaves; an empty map is a leaf."""
    for key, value in overrides.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{path}.")
        else:
            yield path, dict(value) if isinstance(value, Mapping) else value


def merged(defaults: Mapping[str, Any], given: Mapping[str, Any], managed: Mapping[str, Any]) -> dict[str, Any]:
    """Later layers win. Raises ConfigError for a given key that is managed, or a value that is an interpolation."""
    flat = dict(flatten(given))
    for key, value in flat.items():
        if reason := managed_reason(key):
            raise ConfigError(f"override {key} is not allowed: {reason}")
        if _has_interpolation(value) or "${" in key:
            raise ConfigError(f"override {key} is not allowed: ${{…}} would be resolved in the trainer")
    return _without_overridden(dict(flatten(defaults)), flat) | flat | dict(managed)


def check_known(tree: Mapping[str, Any], keys: Iterator[str] | list[str], fields: Fields) -> None:
    """Raises ConfigError for a key that verl's configuration `tree` has no place for.

    A place is a key of the tree, a field of the class named by its node's `_target_`, or anything below an empty map
    or a free-form field (`override_config`, `engine_kwargs`).
    """
    for key in keys:
        if not _is_known(tree, key.split("."), fields):
            raise ConfigError(f"override {key} is not a key of verl's configuration")


def _is_known(tree: Mapping[str, Any], parts: list[str], fields: Fields) -> bool:
    node: Any = tree
    for part in parts:
        if not isinstance(node, Mapping):
            return node is None
        if not node:
            return True
        if part in node:
            node = node[part]
            continue
        names = fields(node["_target_"]) if "_target_" in node else None
        return names is not None and part in names
    return True


def _without_overridden(defaults: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults below a key that is given as a whole would bring back what the job took away."""
    return {
        key: value
        for key, value in defaults.items()
        if not any(key.startswith(f"{other}.") for other in given) and key not in given
    }


def _has_interpolation(value: Any) -> bool:
    if isinstance(value, str):
        return "${" in value
    if isinstance(value, Mapping):
        return any(_has_interpolation(key) or _has_interpolation(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return any(_has_interpolation(item) for item in value)
    return False
