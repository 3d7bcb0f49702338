"""The chart: it lints, renders with every permutation, grants what is used and no more, refuses unknown values."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.chart import (
    CHART,
    MONITORING,
    NAMESPACE,
    PERMUTATIONS,
    RELEASE,
    REPOSITORY,
    environment,
    kinds,
    leaves,
    one,
    render,
    run,
)

from ppojob_contract.names import LABEL_COMPONENT, MONITOR_PORT_NAME
from ppojob_operator.adapters.kubernetes.kinds import LEASE, LEASE_VERBS, VERBS
from ppojob_operator.settings import load


def granted(role: dict[str, Any]) -> dict[tuple[str, str], set[str]]:
    verbs: dict[tuple[str, str], set[str]] = {}
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                verbs.setdefault((group, resource), set()).update(rule["verbs"])
    return verbs


def test_it_lints() -> None:
    done = run("lint", "--strict", CHART)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("values", PERMUTATIONS, ids=lambda path: path.stem)
def test_every_permutation_lints_and_renders(values: Path) -> None:
    assert run("lint", "--strict", CHART, "--values", values).returncode == 0
    objects = render("--values", values, *MONITORING)
    assert {item["metadata"].get("namespace") for item in objects} <= {None, NAMESPACE, "team-a", "team-b"}
    settings = load([], environment(objects))
    assert settings.lease_name == one(objects, "Deployment")["metadata"]["name"]


def test_the_default_serves_the_whole_cluster() -> None:
    found = kinds(render())
    assert found == {
        "CustomResourceDefinition": 1,
        "ServiceAccount": 1,
        "ClusterRole": 3,
        "ClusterRoleBinding": 1,
        "Role": 1,
        "RoleBinding": 1,
        "Service": 1,
        "Deployment": 1,
        "Pod": 1,  # of `helm test`
    }


def test_it_grants_exactly_what_the_adapter_uses() -> None:
    objects = render()
    assert granted(one(objects, "ClusterRole", "rel-ppojob-operator")) == {
        key: set(value) for key, value in VERBS.items()
    }
    lease = granted(one(objects, "Role", "rel-ppojob-operator-lease"))
    assert lease == {(LEASE.group, LEASE.plural): set(LEASE_VERBS)}


def test_the_lease_is_the_one_that_is_granted() -> None:
    objects = render("--set", "fullnameOverride=other")
    rules = one(objects, "Role", "other-lease")["rules"]
    assert [rule.get("resourceNames") for rule in rules] == [None, ["other"]]
    assert environment(objects)["PPOJOB_OPERATOR_LEASE_NAME"] == "other"


def test_watched_namespaces_get_a_role_each_and_the_cluster_none() -> None:
    objects = render("--set", "watchNamespaces={team-a,team-b}", "--set", "rbac.aggregate=false", *MONITORING)
    assert "ClusterRole" not in kinds(objects)
    roles = [item for item in objects if item["kind"] == "Role" and not item["metadata"]["name"].endswith("-lease")]
    assert [role["metadata"]["namespace"] for role in roles] == ["team-a", "team-b"]
    assert all(granted(role) == {key: set(value) for key, value in VERBS.items()} for role in roles)
    assert environment(objects)["PPOJOB_OPERATOR_NAMESPACES"] == "team-a,team-b"
    jobs = one(objects, "PodMonitor", "rel-ppojob-operator-jobs")
    assert jobs["spec"]["namespaceSelector"] == {"matchNames": ["team-a", "team-b"]}


def test_bindings_name_the_service_account() -> None:
    objects = render("--set", "serviceAccount.name=prepared", "--set", "serviceAccount.create=false")
    assert "ServiceAccount" not in kinds(objects)
    subjects = [item["subjects"] for item in objects if item["kind"].endswith("RoleBinding")]
    assert subjects
    assert all(found == [{"kind": "ServiceAccount", "name": "prepared", "namespace": NAMESPACE}] for found in subjects)
    assert one(objects, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == "prepared"


def test_the_crd_is_the_generated_one() -> None:
    generated = (REPOSITORY / "crds" / "rlhf.dev_ppojobs.yaml").read_text()
    assert (CHART / "files" / "rlhf.dev_ppojobs.yaml").read_text() == generated, "run `make generate`"
    rendered = one(render(), "CustomResourceDefinition")
    assert rendered["spec"] == yaml.safe_load(generated)["spec"]
    assert rendered["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_the_crd_can_be_left_out_or_go_with_the_release() -> None:
    assert "CustomResourceDefinition" not in kinds(render("--set", "crds.install=false"))
    assert "annotations" not in one(render("--set", "crds.keep=false"), "CustomResourceDefinition")["metadata"]


@pytest.mark.parametrize(("keep", "annotations"), [("true", {"helm.sh/resource-policy": "keep"}), ("false", None)])
def test_users_rights_stay_with_the_crd(keep: str, annotations: dict[str, str] | None) -> None:
    objects = render("--set", f"crds.keep={keep}")
    for role in ("view", "edit"):
        assert one(objects, "ClusterRole", f"rel-ppojob-operator-{role}")["metadata"].get("annotations") == annotations
    assert "annotations" not in one(objects, "ClusterRole", "rel-ppojob-operator")["metadata"]


def test_the_pod_is_restricted() -> None:
    """Pod Security Standard `restricted`, and no writable root."""
    pod = one(render(), "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ((), 0),
        (MONITORING, 2),
        (("--set", "podMonitor.enabled=true"), 2),
        ((*MONITORING, "--set", "podMonitor.enabled=false"), 0),
    ],
)
def test_pod_monitors_follow_the_cluster_unless_told(arguments: tuple[str, ...], count: int) -> None:
    assert kinds(render(*arguments))["PodMonitor"] == count


def test_one_pod_monitor_covers_all_jobs() -> None:
    spec = one(render(*MONITORING), "PodMonitor", "rel-ppojob-operator-jobs")["spec"]
    assert spec["namespaceSelector"] == {"any": True}
    assert spec["selector"]["matchLabels"][LABEL_COMPONENT] == "head"
    (endpoint,) = spec["podMetricsEndpoints"]
    assert (endpoint["port"], endpoint["honorLabels"]) == (MONITOR_PORT_NAME, True)


@pytest.mark.parametrize(
    "setting",
    [
        "replica=2",
        "image.tga=1",
        "podMonitor.enabled=maybe",
        "watchNamespaces={Team_A}",
        "log.level=loud",
        "replicas=many",
        "resyncSeconds=1",
        "trainer.images.tpu=x",
    ],
)
def test_unknown_and_wrong_values_are_refused(setting: str) -> None:
    done = run("template", RELEASE, CHART, "--set", setting)
    assert done.returncode != 0
    assert setting.partition("=")[0].partition(".")[0] in done.stderr


def test_every_value_is_documented_with_its_default() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| `(.*?)` \| (.+) \|$", (CHART / "README.md").read_text(), re.MULTILINE)
    documented = {name: yaml.safe_load(default) for name, default, _ in rows}
    assert documented == leaves(yaml.safe_load((CHART / "values.yaml").read_text()))


def test_the_notes_say_what_is_missing() -> None:
    arguments = ("install", RELEASE, CHART, "--dry-run=client", "--namespace", NAMESPACE)
    told = run(*arguments).stdout
    assert "kubectl apply -f examples/minimal.yaml" in told
    assert "KubeRay is not installed" in told
    assert "No trainer image is set" in told
    assert "No trainer image" not in run(*arguments, "--set", "trainer.images.cpu=x").stdout


def test_image_references() -> None:
    arguments = (
        "--set",
        "image.repository=reg/op",
        "--set-string",
        "image.tag=123456789012",
        "--set",
        "image.pullSecrets={a}",
    )
    pod = one(render(*arguments), "Deployment")["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "reg/op:123456789012"
    assert pod["imagePullSecrets"] == [{"name": "a"}]


@pytest.mark.parametrize(
    ("url", "port"),
    [("http://prometheus.monitoring:9090/p", 9090), ("https://prometheus.example.org", 443), ("http://prometheus", 80)],
)
def test_prometheus_can_be_asked_where_the_network_is_closed(url: str, port: int) -> None:
    objects = render("--set", f"networkPolicy.enabled=true,prometheus.url={url}")
    found = load([], environment(objects))
    assert (found.prometheus_url, found.prometheus_interval_seconds) == (url, 30)
    ports = [item["port"] for rule in one(objects, "NetworkPolicy")["spec"]["egress"] for item in rule["ports"]]
    assert ports[-1] == port


def test_no_prometheus_is_asked_by_default() -> None:
    assert load([], environment(render())).prometheus_url == ""
