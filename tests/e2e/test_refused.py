"""Specs that cannot work: each gets an answer that names the field, nothing is created, nothing crashes."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.kube import CommandError, Kube, wait_for
from tests.support.run import Run

pytestmark = [pytest.mark.cluster]

Change = Callable[[dict[str, Any]], object]


def guardrail(**fields: Any) -> dict[str, Any]:
    return {"name": "kl", "conditions": [{"metric": "kl", "above": 0.2}], "action": "Rollback"} | fields


BY_THE_SERVER: dict[str, tuple[Change, str]] = {
    "no threshold": (lambda spec: spec.update(guardrails=[guardrail(conditions=[{"metric": "kl"}])]), "threshold"),
    "mini-batch": (lambda spec: spec["training"].update(miniBatchSize=7), "miniBatchSize must divide batchSize"),
    "empty claim": (lambda spec: spec["storage"].update(claimName=""), "spec.storage.claimName"),
    "rule and model": (
        lambda spec: spec["reward"]["terms"][0].update(model={"path": "/models/reward"}),
        "exactly one of",
    ),
    "unknown field": (lambda spec: spec.update(learningrate=1.0), 'unknown field "spec.learningrate"'),
}

BY_THE_OPERATOR: dict[str, tuple[Change, str, str]] = {
    "unknown metric": (
        lambda spec: spec.update(guardrails=[guardrail(conditions=[{"metric": "rewardMaen", "below": 0.1}])]),
        "spec.guardrails[kl].conditions[0].metric",
        "rewardMean",
    ),
    "unknown pod field": (
        lambda spec: spec["cluster"].update(podTemplate={"spec": {"nodeSelectr": {"a": "b"}}}),
        "spec.cluster.podTemplate.spec.nodeSelectr",
        "did you mean nodeSelector?",
    ),
    "request above its limit": (
        lambda spec: spec["cluster"].update(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
        "spec.cluster.resources.requests[cpu]",
        "more than the limit",
    ),
    "managed override": (
        lambda spec: spec.update(trainer={"overrides": [{"key": "trainer.resume_mode", "value": "auto"}]}),
        "spec.trainer.overrides[trainer.resume_mode]",
        "resume_mode",
    ),
}


def changed(run: Run, change: Change) -> Run:
    objects = copy.deepcopy(run.objects)
    other = Run(run.kube, run.namespace, run.name, objects)
    change(other.spec)
    return other


@pytest.fixture(scope="module")
def shared(kube: Kube) -> str:
    name = "e2e-refused"
    kube.fresh_namespace(name)
    return name


@pytest.mark.parametrize("case", BY_THE_SERVER)
def test_refused_by_the_api_server(kube: Kube, shared: str, case: str, minimal_manifest: str) -> None:
    change, message = BY_THE_SERVER[case]
    run = changed(Run.of(kube, shared, minimal_manifest), change)
    with pytest.raises(CommandError) as refusal:
        run.apply()
    assert message in str(refusal.value)
    assert kube.get("ppojobs.rlhf.dev", run.name, shared) is None


def test_a_name_with_a_dot_is_refused(kube: Kube, shared: str, minimal_manifest: str) -> None:
    run = Run.of(kube, shared, minimal_manifest)
    job = next(item for item in run.objects if item["kind"] == "PPOJob")
    job["metadata"]["name"] = "my.job"
    with pytest.raises(CommandError) as refusal:
        run.apply()
    assert "name" in str(refusal.value)


@pytest.mark.parametrize("case", BY_THE_OPERATOR)
def test_refused_by_the_operator(kube: Kube, shared: str, case: str, minimal_manifest: str) -> None:
    change, field, fix = BY_THE_OPERATOR[case]
    run = changed(Run.of(kube, shared, minimal_manifest), change)
    run.apply()
    condition = wait_for("the refusal", lambda: _refusal(run), seconds=30, every=0.2)
    assert field in condition["message"]
    assert fix in condition["message"]
    assert run.status["phase"] == "Invalid"
    assert kube.items("rayclusters", shared) == []
    assert kube.items("rayjobs", shared) == []
    assert "InvalidSpec" in run.reasons(), json.dumps(run.events())
    kube.kubectl("delete", "ppojobs.rlhf.dev", run.name, "--namespace", shared, "--wait", "--timeout=30s")


def _refusal(run: Run) -> dict[str, str] | None:
    condition = run.condition("Accepted")
    return condition if condition.get("status") == "False" else None
