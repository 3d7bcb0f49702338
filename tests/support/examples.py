"""The manifests of `examples/`, as the operator sees them."""

from pathlib import Path
from typing import Any

import yaml
from tests.support.builders import UID

from ppojob_operator.api.v1alpha1.spec import PPOJobSpec
from ppojob_operator.domain.acceptance import judge
from ppojob_operator.domain.job import AcceptedJob

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(path.stem for path in (ROOT / "examples").glob("*.yaml"))


def manifests(name: str) -> list[dict[str, Any]]:
    """All objects of an example."""
    return list(yaml.safe_load_all((ROOT / "examples" / f"{name}.yaml").read_text(encoding="utf-8")))


def ppojob(name: str) -> dict[str, Any]:
    """The example's PPOJob."""
    (found,) = [manifest for manifest in manifests(name) if manifest["kind"] == "PPOJob"]
    return found


def accepted_spec(raw: dict[str, Any]) -> PPOJobSpec:
    """Fails the test with the problems where the spec is refused."""
    spec, problems, _ = judge(raw)
    assert spec is not None, [str(problem) for problem in problems]
    assert not problems, [str(problem) for problem in problems]
    return spec


def accepted(name: str) -> AcceptedJob:
    """The example as an accepted job."""
    manifest = ppojob(name)
    return AcceptedJob(
        namespace="team-a",
        name=manifest["metadata"]["name"],
        uid=UID,
        generation=1,
        spec=accepted_spec(manifest["spec"]),
    )
