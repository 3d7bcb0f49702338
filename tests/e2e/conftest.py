"""The operator, installed with Helm, and jobs that real trainers run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.kube import REPOSITORY, SYSTEM, Kube
from tests.support.run import Run


@pytest.fixture(scope="session")
def kube() -> Kube:
    connected = Kube.connect()
    connected.install_operator()
    return connected


@pytest.fixture
def namespace(kube: Kube, request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty namespace for one test; what ran in it is shown when the test failed."""
    name = "e2e-" + request.node.originalname.removeprefix("test_").replace("_", "-")[:50].rstrip("-")
    kube.fresh_namespace(name)
    failed = request.session.testsfailed
    yield name
    if request.session.testsfailed > failed:
        print(kube.kubectl("get", "ppojobs,rayclusters,rayjobs,pods,events", "--namespace", name, "--output", "wide"))
        print(kube.kubectl("get", "ppojobs", "--namespace", name, "--output", "yaml"))
        print(kube.kubectl("logs", "deployment/ppojob-operator", "--namespace", SYSTEM, "--tail", "200"))
    kube.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def rollback(kube: Kube, namespace: str) -> Run:
    """The demo's example, not applied yet."""
    return Run.of(kube, namespace, example("rollback"))


@pytest.fixture
def minimal(kube: Kube, namespace: str) -> Run:
    return Run.of(kube, namespace, example("minimal"))


@pytest.fixture(scope="session")
def minimal_manifest() -> str:
    return example("minimal")


def example(name: str) -> str:
    path: Path = REPOSITORY / "examples" / f"{name}.yaml"
    return path.read_text()
