"""The generated CRD at a real API server: it compiles every CEL rule within its cost, lets good objects in, and refuses
bad ones with a message that names the field.

Under a group, a kind and names of its own: an operator in the same cluster is not in the way, and `kubectl get
ppojob` means the real kind while these tests run.
"""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.cluster.kubectl import Kubectl
from tests.cluster.shell import CommandError
from tests.support.builders import raw_guardrail, raw_spec
from tests.support.examples import NAMES, ppojob
from tests.support.kube import Kube
from tests.support.schema import CRD
from tests.support.wrong_pipelines import WRONG

pytestmark = pytest.mark.cluster

GROUP = "crd-test.rlhf.dev"
KIND = "CRDTestJob"
NAMES_OF_KIND = {"kind": KIND, "listKind": f"{KIND}List", "plural": "crdtestjobs", "singular": "crdtestjob"}
RESOURCE = f"{NAMES_OF_KIND['plural']}.{GROUP}"
NAMESPACE = "ppojob-crd-test"
FIELD_MANAGER = "ppojob-crd-test"


def own_crd() -> dict[str, Any]:
    crd = copy.deepcopy(CRD)
    crd["metadata"]["name"] = RESOURCE
    crd["spec"] |= {"group": GROUP, "names": NAMES_OF_KIND}
    return crd


class Server:
    """The API server, as far as these tests need it."""

    def __init__(self, kubectl: Kubectl) -> None:
        self.kubectl = kubectl

    def apply(self, manifest: dict[str, Any], *flags: str) -> dict[str, Any]:
        """Raises Refused."""
        command = ("apply", "--server-side", "--force-conflicts", f"--field-manager={FIELD_MANAGER}", "-o", "json")
        try:
            text = self.kubectl(*command, *flags, "-f", "-", stdin=json.dumps(manifest))
        except CommandError as error:
            raise Refused(str(error)) from error
        applied: dict[str, Any] = json.loads(text)
        return applied

    def try_out(self, spec: dict[str, Any], name: str = "job") -> dict[str, Any]:
        """What would be stored. Raises Refused."""
        return self.apply(manifest(spec, name), "--dry-run=server")


class Refused(Exception):
    """The API server said no; the message is its own."""


def manifest(spec: dict[str, Any], name: str = "job") -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": KIND,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    kubectl = Kube.connect().kubectl
    found = Server(kubectl)
    found.apply(own_crd())
    kubectl("wait", "--for=condition=Established", "--timeout=60s", f"crd/{RESOURCE}")
    found.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    yield found
    kubectl("delete", "crd", RESOURCE, "--wait", "--timeout=60s")
    kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def term(**fields: Any) -> dict[str, Any]:
    return {"terms": [{"name": "r"} | fields]}


def training(**fields: Any) -> dict[str, Any]:
    return {**raw_spec()["training"], **fields}


def adjusting(**fields: Any) -> dict[str, Any]:
    return {"adjust": [{"parameter": "LearningRate", **fields}]}


ADAPTIVE = {"kl": {"control": "Adaptive", "target": 0.3}}
KL_RULE = [raw_guardrail()]

RULE = {"type": "GSM8K"}
NO_PAIRS = {"rollout": {"samplesPerPrompt": 1}, "algorithm": {"estimator": "GRPO"}}
CRITIC_OF_RLOO = {
    "model": {"actor": {"path": "/m"}, "critic": {"path": "/c"}},
    "algorithm": {"estimator": "RLOO"},
    "rollout": {"samplesPerPrompt": 2},
}
ADAPTIVE_GRPO = {
    "algorithm": {"estimator": "GRPO", "kl": {"control": "Adaptive"}},
    "rollout": {"samplesPerPrompt": 2},
}
LOSS = {"kl": {"control": "Adaptive", "placement": "Loss"}}


def condition(**fields: Any) -> list[dict[str, Any]]:
    return [raw_guardrail(conditions=[fields])]


REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no threshold": ({"guardrails": [raw_guardrail(conditions=[{"metric": "kl"}])]}, ["conditions[0]", "threshold"]),
    "metric and promql": (
        {"guardrails": condition(metric="kl", promql="up", above=1)},
        ["conditions[0]", "exactly one"],
    ),
    "neither metric nor promql": ({"guardrails": condition(above=1)}, ["conditions[0]", "exactly one"]),
    "relative and absolute": (
        {"guardrails": condition(metric="kl", above=1, relativeTo="Best", ratio=2)},
        ["conditions[0]", "relativeTo"],
    ),
    "relative to what": ({"guardrails": condition(metric="kl", relativeTo="Best")}, ["conditions[0]", "ratio and by"]),
    "ratio without reference": ({"guardrails": condition(metric="kl", ratio=2)}, ["conditions[0]", "threshold"]),
    "ratio 1": ({"guardrails": condition(metric="kl", relativeTo="Best", ratio=1)}, ["conditions[0].ratio", "not 1"]),
    "by 0": ({"guardrails": condition(metric="kl", relativeTo="Best", by=0)}, ["conditions[0].by", "not be 0"]),
    "neither preset nor conditions": ({"guardrails": [{"name": "kl"}]}, ["guardrails[0]", "preset, or conditions"]),
    "unknown preset": ({"guardrails": [{"name": "kl", "preset": "Luck"}]}, ["guardrails[0].preset", "KLRunaway"]),
    "forSteps and failing": (
        {"guardrails": [raw_guardrail(failing={"count": 1, "of": 2})]},
        ["guardrails[0].failing", "not both"],
    ),
    "more than all": (
        {"guardrails": [{"name": "kl", "preset": "KLRunaway", "failing": {"count": 3, "of": 2}}]},
        ["failing.count", "must not exceed"],
    ),
    "no condition": ({"guardrails": [raw_guardrail(conditions=[])]}, ["spec.guardrails[0].conditions"]),
    "guardrail twice": ({"guardrails": [raw_guardrail()] * 2}, ["spec.guardrails", "duplicate entries"]),
    "mini-batch": ({"training": training(miniBatchSize=6)}, ["spec.training.miniBatchSize", "must divide batchSize"]),
    "no claim": ({"storage": {"claimName": ""}}, ["spec.storage.claimName"]),
    "rule and model": ({"reward": term(rule=RULE, model={"path": "/m"})}, ["terms[0]", "exactly one"]),
    "rule and function": ({"reward": term(rule=RULE, function={"configMap": "c"})}, ["exactly one"]),
    "no kind of reward": ({"reward": term()}, ["spec.reward.terms[0]", "exactly one of rule, function, model"]),
    "no reward": ({"reward": {"terms": []}}, ["spec.reward.terms"]),
    "regex without pattern": ({"reward": term(rule={"type": "Regex"})}, ["rule.pattern"]),
    "critic without GAE": (CRITIC_OF_RLOO, ["spec.model.critic"]),
    "one sample a group": (NO_PAIRS, ["spec.rollout.samplesPerPrompt", "2 or more"]),
    "adaptive in the loss": ({"algorithm": LOSS}, ["spec.algorithm.kl.control"]),
    "adaptive by GRPO": (ADAPTIVE_GRPO, ["spec.algorithm.kl.control", "placement"]),
    "target of a fixed": ({"algorithm": {"kl": {"target": 0.1}}}, ["spec.algorithm.kl.target"]),
    "above target": ({"algorithm": ADAPTIVE, "guardrails": KL_RULE}, ["spec.guardrails", "algorithm.kl.target"]),
    "two changes": ({"rollback": adjusting(multiply=0.1, set=1.0e-6)}, ["adjust[0]", "exactly one"]),
    "no change": ({"rollback": adjusting()}, ["adjust[0]", "exactly one"]),
    "min above max": ({"rollback": adjusting(set=1.0, min=2.0, max=1.0)}, ["adjust[0].min"]),
    "unknown parameter": (
        {"rollback": {"adjust": [{"parameter": "Luck", "set": 1}]}},
        ["adjust[0].parameter", "LearningRate"],
    ),
    "unknown field": ({"colour": "red"}, ["spec.colour"]),
    "unknown device": ({"cluster": {"device": "TPU"}}, ["spec.cluster.device", "NvidiaGPU"]),
    "text for a rate": ({"training": training(learningRate="1e-6")}, ["spec.training.learningRate", "numeric"]),
    "no rate": ({"training": training(learningRate=0)}, ["spec.training.learningRate"]),
    "quantity": ({"cluster": {"device": "CPU", "sharedMemory": "lots"}}, ["spec.cluster.sharedMemory"]),
    "path out of the claim": ({"storage": {"claimName": "c", "path": "../x"}}, ["spec.storage.path"]),
}


PIPELINES: dict[str, tuple[dict[str, Any], list[str]]] = {
    name: (blocks, list(words)) for name, (blocks, _, words) in WRONG.items()
}


@pytest.mark.parametrize("name", REFUSED | PIPELINES)
def test_refused_with_the_field(server: Server, name: str) -> None:
    spec, words = (REFUSED | PIPELINES)[name]
    with pytest.raises(Refused) as refusal:
        server.try_out(raw_spec(**spec))
    for word in words:
        assert word in str(refusal.value)


@pytest.mark.parametrize("name", ["with.dot", "a" * 64, "1st"])
def test_a_name_that_ray_objects_cannot_have(server: Server, name: str) -> None:
    with pytest.raises(Refused, match="must be at most 63 lower-case letters"):
        server.try_out(raw_spec(), name)


def test_a_name_of_63_characters(server: Server) -> None:
    assert server.try_out(raw_spec(), "a" * 63)["metadata"]["name"] == "a" * 63


@pytest.mark.parametrize("name", NAMES)
def test_examples_are_let_in(server: Server, name: str) -> None:
    server.try_out(ppojob(name)["spec"])


@pytest.mark.parametrize(("written", "meant"), [("1e-4", 1e-4), ("1.0e-4", 1e-4), ("2E-5", 2e-5), ("1", 1)])
def test_kubectl_reads_numbers_as_people_write_them(server: Server, written: str, meant: float) -> None:
    """Other YAML readers (PyYAML) take 1e-4 for text, which the server refuses: see "text for a rate"."""
    text = yaml.safe_dump(manifest(raw_spec(training=training(learningRate="RATE")))).replace("RATE", written)
    stored = json.loads(server.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=text))
    assert stored["spec"]["training"]["learningRate"] == pytest.approx(meant)


def test_the_real_kind_keeps_its_names(server: Server) -> None:
    names = CRD["spec"]["names"]
    real = {names["kind"], names["plural"], names["singular"], *names["shortNames"], *names["categories"]}
    taken = server.kubectl.read("crd", RESOURCE)["spec"]["names"]
    lists = (*taken.get("shortNames", ()), *taken.get("categories", ()))
    assert not real & {taken["kind"], taken["plural"], taken["singular"], *lists}


def test_defaults_are_filled_in(server: Server) -> None:
    stored = server.try_out(raw_spec())["spec"]
    assert stored["algorithm"]["kl"] == {"coefficient": 0.001, "control": "Fixed", "horizon": 10000, "monitor": True}
    assert stored["cluster"]["sharedMemory"] == "10Gi"
    assert stored["rollback"]["limit"] == 3
    assert "guardrails" not in stored
    assert "trainer" not in stored


def test_scalars_of_overrides_keep_their_type(server: Server) -> None:
    items = [{"key": f"k{n}", "value": value} for n, value in enumerate([1, 1.5, "1", True, None])]
    stored = server.try_out(raw_spec(trainer={"overrides": items}))["spec"]["trainer"]["overrides"]
    assert [item.get("value") for item in stored] == [1, 1.5, "1", True, None]


def test_numbers_as_quantities(server: Server) -> None:
    resources = {"requests": {"cpu": 8, "memory": "1.5Gi"}}
    stored = server.try_out(raw_spec(cluster={"device": "CPU", "resources": resources}))
    assert stored["spec"]["cluster"]["resources"] == resources


def changed(**blocks: Any) -> dict[str, Any]:
    return raw_spec(rollout={"samplesPerPrompt": 2}, **blocks)


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("cluster.nodes", {"cluster": {"device": "CPU", "nodes": 2}}),
    ("cluster.devicesPerNode", {"cluster": {"device": "CPU", "devicesPerNode": 2}}),
    ("model.actor.path", {"model": {"actor": {"path": "/other"}}}),
    ("model.actor.lora", {"model": {"actor": {"path": "/models/tiny", "lora": {"rank": 8}}}}),
    ("model.critic", {"model": {"actor": {"path": "/models/tiny"}, "critic": {"path": "/c"}}}),
    ("algorithm.estimator", {"algorithm": {"estimator": "GRPO"}}),
    ("training.strategy", {"training": training(strategy="FSDP")}),
    ("storage", {"storage": {"claimName": "other"}}),
]


@pytest.fixture(scope="module")
def running(server: Server) -> Server:
    """A job whose first attempt has begun."""
    server.apply(manifest(changed(), "running"))
    attempt = {"number": 1, "cluster": 1, "created": "2026-01-01T00:00:00Z"}
    patch = json.dumps({"status": {"phase": "Running", "attempt": attempt, "rollbacks": 2}})
    server.kubectl("patch", RESOURCE, "running", "-n", NAMESPACE, "--subresource=status", "--type=merge", "-p", patch)
    return server


@pytest.mark.parametrize(("field", "blocks"), CHANGES, ids=[field for field, _ in CHANGES])
def test_what_checkpoints_depend_on_cannot_be_changed_in_a_running_job(
    running: Server, field: str, blocks: dict[str, Any]
) -> None:
    with pytest.raises(Refused) as refusal:
        running.apply(manifest(changed(**blocks), "running"), "--dry-run=server")
    assert f"spec.{field}" in str(refusal.value)
    assert "create a new PPOJob" in str(refusal.value)


@pytest.mark.parametrize(("field", "blocks"), CHANGES, ids=[field for field, _ in CHANGES])
def test_before_the_first_attempt_all_can_be_changed(server: Server, field: str, blocks: dict[str, Any]) -> None:
    name = "pending-" + field.lower().replace(".", "-")
    server.apply(manifest(changed(), name))
    server.apply(manifest(changed(**blocks), name))


@pytest.mark.parametrize(
    "blocks",
    [
        {"guardrails": [raw_guardrail()]},
        {"suspend": True},
        {"training": training(learningRate=2.0e-6, totalSteps=99)},
        {"trainer": {"image": "other"}},
    ],
)
def test_the_rest_can_be_changed_in_a_running_job(running: Server, blocks: dict[str, Any]) -> None:
    running.apply(manifest(changed(**blocks), "running"), "--dry-run=server")


def test_one_line_says_how_it_goes(running: Server) -> None:
    header, line = running.kubectl("get", RESOURCE, "running", "-n", NAMESPACE).splitlines()
    assert header.split() == ["NAME", "PHASE", "STAGE", "STEP", "REWARD", "KL", "ATTEMPT", "ROLLBACKS", "AGE"]
    assert line.split()[:4] == ["running", "Running", "1", "2"]
    wide, _ = running.kubectl("get", RESOURCE, "running", "-n", NAMESPACE, "-o", "wide").splitlines()
    assert wide.split()[-1] == "MESSAGE"
