"""Requests above their limits: the API server would refuse every pod, long after the job was accepted."""

from collections.abc import Iterator, Mapping
from typing import Any

from ppojob_operator.api.v1alpha1.quantities import quantity_value
from ppojob_operator.api.v1alpha1.spec import ClusterSpec, Resources
from ppojob_operator.domain.observation import Problem


def resource_problems(cluster: ClusterSpec, template: str) -> Iterator[Problem]:
    """Of the resource fields and of containers in the pod template, whose path is `template`."""
    yield from _above_limits("spec.cluster.resources", cluster.resources.requests, cluster.resources.limits)
    yield from _above_limits(
        "spec.cluster.headResources", cluster.head_resources.requests, cluster.head_resources.limits
    )
    for path, container in _containers(cluster.pod_template, template):
        # What is laid over the Ray container is merged into the fields' resources.
        below = [cluster.resources, cluster.head_resources] if container.get("name") == "ray" else [Resources()]
        found = [problem for under in below for problem in _laid_over(path, under, _map(container.get("resources")))]
        yield from {problem.field: problem for problem in found}.values()


def _containers(pod_template: Mapping[str, Any], template: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    pod = _map(pod_template.get("spec"))
    for kind in ("containers", "initContainers"):
        items = pod.get(kind)
        for item in items if isinstance(items, list) else ():
            if isinstance(item, Mapping):
                yield f"{template}.spec.{kind}[{item.get('name')}].resources", item


def _laid_over(path: str, under: Resources, over: Mapping[str, Any]) -> Iterator[Problem]:
    requests, limits = _map(over.get("requests")), _map(over.get("limits"))
    merged = {**under.requests, **requests}
    touched = {name: merged[name] for name in merged if name in requests or name in limits}
    yield from _above_limits(path, touched, {**under.limits, **limits})


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _above_limits(path: str, requests: Mapping[str, Any], limits: Mapping[str, Any]) -> Iterator[Problem]:
    for name, request in requests.items():
        asked, most = quantity_value(request), quantity_value(limits.get(name))
        if asked is not None and most is not None and asked > most:
            message = f"{request} is more than the limit, {limits[name]}"
            yield Problem(field=f"{path}.requests[{name}]", message=message)
