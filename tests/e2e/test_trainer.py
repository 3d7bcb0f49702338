"""The trainer alone on real verl: `trainer-image/checks`, in a pod."""

from collections.abc import Iterator

import pytest
from tests.support import checks
from tests.support.kube import Kube

pytestmark = [pytest.mark.cluster, pytest.mark.e2e]

REST = (
    "killed_behind_the_load",
    *("refused", "stop_and_resume", "sigterm", "deaths", "adaptive", "weights_only"),
    *("killed_at_each_point", "refused_and_failed", "revoked", "adaptive_hot"),
    *("reward_two_processes", "reward_lora", "reward_stopped", "reward_refused"),
    *("evaluate_identical", "evaluate_killed", "evaluate_checkpoint", "evaluate_refused"),
    *("from_a_hub", "exported_lora"),
    *("combined", "combined_later", "function_hangs", "terms_refused"),
)
"""All but `full_disk`, which mounts."""


@pytest.fixture
def empty(request: pytest.FixtureRequest) -> Iterator[tuple[Kube, str]]:
    """A cluster and a namespace; the operator is not needed."""
    kube, namespace = Kube.connect(), "e2e-" + request.node.originalname.removeprefix("test_").replace("_", "-")
    kube.fresh_namespace(namespace)
    yield kube, namespace
    kube.kubectl("delete", "namespace", namespace, "--wait=false")


def test_hot_rollback(empty: tuple[Kube, str]) -> None:
    """Equal to a cold start to the last bit."""
    print(checks.run(*empty, ("hot_equals_cold",), seconds=600))


@pytest.mark.slow
def test_reward_model(empty: tuple[Kube, str]) -> None:
    """Trained, killed in the middle, gone on with."""
    print(checks.run(*empty, ("reward_published", "reward_killed"), seconds=600))


@pytest.mark.slow
def test_evaluation(empty: tuple[Kube, str]) -> None:
    """By a reward model, and by an endpoint."""
    print(checks.run(*empty, ("evaluate_by_reward_model", "evaluate_by_endpoint"), seconds=600))


@pytest.mark.slow
def test_data_and_export(empty: tuple[Kube, str]) -> None:
    """verl trains on what was prepared; what is exported is the live actor, bit by bit."""
    print(checks.run(*empty, ("prepared", "exported"), seconds=600))


@pytest.mark.slow
def test_trainer(empty: tuple[Kube, str]) -> None:
    """Everything else, some twenty-five minutes."""
    print(checks.run(*empty, REST, seconds=3600))
