"""The chart as Helm renders it."""

import os
import shutil
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).parents[2]
CHART = REPOSITORY / "charts" / "ppojob-operator"
PERMUTATIONS = sorted(CHART.glob("ci/*.yaml"))
RELEASE, NAMESPACE = "rel", "system"
MONITORING = ("--api-versions", "monitoring.coreos.com/v1")

Objects = list[dict[str, Any]]


@cache
def helm() -> str:
    """The binary that HELM names, the one on PATH, or the one built for the development cluster."""
    built = sorted(Path.home().glob(".cache/ppojob/tools/helm-*/bin/helm"))
    found = os.environ.get("HELM") or shutil.which("helm") or (str(built[-1]) if built else None)
    if found is None:
        pytest.skip("no helm: `make cluster-up` builds it, or set HELM")
    return found


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([helm(), *map(str, arguments)], capture_output=True, text=True, check=False)


def render_text(*arguments: str | Path) -> str:
    done = run("template", RELEASE, CHART, "--namespace", NAMESPACE, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def render(*arguments: str | Path) -> Objects:
    return [found for found in yaml.safe_load_all(render_text(*arguments)) if found]


def one(objects: Objects, kind: str, name: str | None = None) -> dict[str, Any]:
    (found,) = [item for item in objects if item["kind"] == kind and name in {None, item["metadata"]["name"]}]
    return found


def kinds(objects: Objects) -> Counter[str]:
    return Counter(item["kind"] for item in objects)


def operator_pod(objects: Objects) -> dict[str, Any]:
    """The Deployment's pod template."""
    template: dict[str, Any] = one(objects, "Deployment")["spec"]["template"]
    return template


def environment(objects: Objects) -> dict[str, str]:
    """Of the operator's container."""
    container = operator_pod(objects)["spec"]["containers"][0]
    return {item["name"]: item.get("value", "from-the-pod") for item in container["env"]}


def leaves(values: dict[str, Any], whole: tuple[str, ...] = ("resources", "podSecurityContext")) -> dict[str, Any]:
    """Values by their dotted path; maps whose keys the user chooses are leaves."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict) and value and key not in whole:
            found |= {f"{key}.{name}": leaf for name, leaf in leaves(value, whole).items()}
        else:
            found[key] = value
    return found
