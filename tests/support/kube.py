"""The development cluster as a user has it: kubectl, helm, Prometheus' HTTP API."""

from __future__ import annotations

import json
import time
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.cluster import addons, images, targets, volumes
from tests.cluster.kubectl import Kubectl
from tests.cluster.settings import Paths, paths
from tests.cluster.shell import CommandError, run
from tests.cluster.tools import HELM

REPOSITORY = Path(__file__).resolve().parents[2]
CHART = REPOSITORY / "charts" / "ppojob-operator"
RELEASE, SYSTEM = "ppojob-operator", "ppojob-system"

T = TypeVar("T")


class TookTooLong(AssertionError):
    """What was waited for did not come."""


@dataclass(frozen=True, slots=True)
class Kube:
    """A cluster that is up."""

    paths: Paths
    kubectl: Kubectl

    @classmethod
    def connect(cls) -> Kube:
        """The cluster that `make cluster-up` gave. Raises where there is none."""
        where = paths()
        kubectl = Kubectl(where, targets.kubeconfig(targets.choose(where), where))
        kubectl("get", "--raw", "/readyz")
        return cls(where, kubectl)

    def get(self, kind: str, name: str, namespace: str) -> dict[str, Any] | None:
        """One object, or None."""
        text = self.kubectl("get", kind, name, "--namespace", namespace, "--ignore-not-found", "--output", "json")
        return json.loads(text) if text.strip() else None

    def items(self, kind: str, namespace: str, selector: str = "") -> list[dict[str, Any]]:
        """Objects of a namespace."""
        items: list[dict[str, Any]] = self.kubectl.read(kind, "--namespace", namespace, "--selector", selector)["items"]
        return items

    def apply(self, manifest: str, namespace: str) -> str:
        """What a user does: client-side apply of YAML text."""
        return self.kubectl("apply", "--namespace", namespace, "--filename", "-", stdin=manifest)

    def fresh_namespace(self, name: str) -> None:
        """An empty namespace and empty volumes."""
        self.kubectl("delete", "namespace", name, "--ignore-not-found", "--wait", "--timeout=170s")
        self.kubectl("create", "namespace", name)
        volumes.refresh(self.kubectl, self.paths)

    def helm(self, *arguments: str) -> str:
        program = HELM.program(self.paths, "helm")
        environment = {"KUBECONFIG": str(self.kubectl.kubeconfig)}
        return run(program, *arguments, environment=environment, timeout=300)

    def install_operator(self, values: Mapping[str, str] | None = None) -> None:
        """Installs or upgrades the operator from the chart, with this tree's images."""
        operator, trainer = (images.project_image(self.paths, name) for name in ("operator", "trainer-cpu"))
        repository, tag = operator.rsplit(":", 1)
        chosen = {
            "image.repository": repository,
            "image.tag": tag,
            "trainer.images.cpu": trainer,
            "statusIntervalSeconds": "1",
            "prometheus.url": addons.prometheus_url(self.kubectl),
            "prometheus.intervalSeconds": "2",
            **(values or {}),
        }
        # As strings where the schema wants strings: a tag that is a hash can be all digits.
        numbers = {"statusIntervalSeconds", "replicas", "prometheus.intervalSeconds"}
        flags = ((("--set" if key in numbers else "--set-string"), f"{key}={value}") for key, value in chosen.items())
        settings = [part for flag in flags for part in flag]
        self.helm(
            *("upgrade", "--install", RELEASE, str(CHART), "--namespace", SYSTEM, "--create-namespace"),
            *("--wait", "--timeout", "120s", "--take-ownership", *settings),
        )

    def prometheus(self, path: str, **parameters: str) -> Any:
        """`data` of a call of Prometheus' HTTP API, for example prometheus("query", query="up")."""
        query = urllib.parse.urlencode(parameters)
        return json.loads(self.kubectl("get", "--raw", f"{addons.PROMETHEUS_PROXY}/api/v1/{path}?{query}"))["data"]

    def values(self, query: str) -> list[float]:
        """Values of an instant query."""
        return [float(item["value"][1]) for item in self.prometheus("query", query=query)["result"]]


def wait_for(what: str, look: Callable[[], T | None], *, seconds: float, every: float = 1.0) -> T:
    """What `look` returns once there is something (an empty list is nothing); raises `TookTooLong` after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise TookTooLong(f"{what}: not within {seconds:.0f} s")
        time.sleep(every)


__all__ = ["CHART", "RELEASE", "REPOSITORY", "SYSTEM", "CommandError", "Kube", "TookTooLong", "wait_for"]
