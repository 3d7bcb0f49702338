"""Fields of `cluster.podTemplate` that no pod has: KubeRay's definition would drop them without a word."""

from collections.abc import Iterator, Mapping
from typing import Any

from ppojob_operator.domain.observation import Problem
from ppojob_operator.domain.pod_fields import FIELDS
from ppojob_operator.domain.suggestions import closest


def unknown_fields(node: Any, path: str, kind: str = "PodSpec") -> Iterator[Problem]:
    """Of a pod's spec, or of what is below it."""
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from unknown_fields(item, f"{path}[{_name(item, index)}]", kind)
    elif isinstance(node, Mapping):
        for key, value in node.items():
            inner = FIELDS[kind].get(str(key))
            if inner is None:
                yield Problem(field=f"{path}.{key}", message=_message(str(key), kind))
            elif inner:
                yield from unknown_fields(value, f"{path}.{key}", inner)


def _name(item: Any, index: int) -> str:
    name = item.get("name") if isinstance(item, Mapping) else None
    return name if isinstance(name, str) and name else str(index)


def _message(key: str, kind: str) -> str:
    close = closest(key, FIELDS[kind])
    hint = f"did you mean {close}?" if close else f"kubectl explain pod.spec lists what there is (in {kind})"
    return f"is not a field of a pod: {hint}"
