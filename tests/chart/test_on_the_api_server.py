"""What the chart renders, and what it grants, as a real API server sees it; nothing is installed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.chart import NAMESPACE, PERMUTATIONS, render_text
from tests.support.kube import CommandError, Kube

pytestmark = pytest.mark.cluster

RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}


@pytest.fixture(scope="module")
def kube() -> Iterator[Kube]:
    """With the namespaces that the permutations name; the operator's allows only restricted pods."""
    connected = Kube.connect()
    names = (NAMESPACE, "team-a", "team-b")
    connected.kubectl.apply_objects(
        [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": RESTRICTED}} for name in names]
    )
    yield connected
    connected.kubectl("delete", "namespaces", *names, "--wait=false")


def dry_run(kube: Kube, rendered: str) -> str:
    return kube.kubectl(
        *("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--warnings-as-errors"),
        *("--validate=strict", "--filename", "-"),
        stdin=rendered,
    )


@pytest.mark.parametrize("values", PERMUTATIONS, ids=lambda path: path.stem)
def test_it_takes_every_permutation_without_a_warning(kube: Kube, values: Path) -> None:
    """Prometheus' kinds are installed there too, so they are validated like all others."""
    rendered = render_text("--values", values, "--api-versions", "monitoring.coreos.com/v1")
    told = dry_run(kube, rendered)
    assert told.count("(server dry run)") == rendered.count("\nkind: "), told


def test_it_would_say_that_a_pod_is_not_restricted(kube: Kube) -> None:
    with pytest.raises(CommandError, match="violate PodSecurity"):
        dry_run(kube, render_text("--set", "podSecurityContext=null"))
