"""`cluster.podTemplate` laid over a rendered pod template.

Maps are merged and the user's scalars win. Lists of named items are merged by what names them in Kubernetes (ports by
`containerPort`, mounts by `mountPath`, everything else by `name`), new items are put after ours; other lists are put
after ours. What must not be changed is refused before, by `domain.acceptance`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

_KEYS = {"ports": "containerPort", "volumeMounts": "mountPath"}


def lay_over(template: dict[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """A new template; neither argument is changed."""
    merged: dict[str, Any] = dict(template)
    for key, value in overlay.items():
        merged[key] = _merge(merged[key], value, _KEYS.get(key, "name")) if key in merged else value
    return merged


def _merge(ours: Any, theirs: Any, name: str) -> Any:
    if isinstance(ours, dict) and isinstance(theirs, Mapping):
        return lay_over(ours, theirs)
    if isinstance(ours, list) and isinstance(theirs, Sequence) and not isinstance(theirs, str):
        return _merge_lists(ours, theirs, name)
    return theirs


def _merge_lists(ours: list[Any], theirs: Sequence[Any], name: str) -> list[Any]:
    if not all(isinstance(item, Mapping) and name in item for item in (*ours, *theirs)):
        return [*ours, *theirs]
    by_name = {item[name]: item for item in ours}
    for item in theirs:
        known = by_name.get(item[name])
        by_name[item[name]] = lay_over(known, item) if known is not None else item
    return list(by_name.values())
