"""The chart's optional parts."""

import json
from typing import Any

import pytest
import yaml
from tests.support.chart import CHART, MONITORING, environment, kinds, leaves, one, operator_pod, render, run

from ppojob_contract.names import LABEL_COMPONENT, MONITOR_PORT
from ppojob_operator.codegen.chart import UndocumentedValue, documented, readme
from ppojob_operator.settings import OPTIONS

TWO = ("--set", "replicas=2")


def test_a_budget_only_where_one_can_be_missed() -> None:
    assert "PodDisruptionBudget" not in kinds(render())
    budget = one(render(*TWO), "PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 1
    assert budget["spec"]["selector"] == one(render(*TWO), "Deployment")["spec"]["selector"]
    assert "PodDisruptionBudget" not in kinds(render(*TWO, "--set", "podDisruptionBudget.enabled=false"))


def test_several_operators_prefer_different_nodes() -> None:
    assert "topologySpreadConstraints" not in operator_pod(render())["spec"]
    (spread,) = operator_pod(render(*TWO))["spec"]["topologySpreadConstraints"]
    assert spread["whenUnsatisfiable"] == "ScheduleAnyway"
    given = "topologySpreadConstraints[0].topologyKey=zone"
    assert operator_pod(render(*TWO, "--set", given))["spec"]["topologySpreadConstraints"] == [{"topologyKey": "zone"}]


def test_a_network_policy_lets_through_what_the_operator_needs() -> None:
    assert "NetworkPolicy" not in kinds(render())
    objects = render("--set", "networkPolicy.enabled=true")
    spec = one(objects, "NetworkPolicy")["spec"]
    assert spec["podSelector"] == one(objects, "Deployment")["spec"]["selector"]
    assert spec["ingress"] == [{"ports": [{"port": "metrics"}]}]
    ports = [[port["port"] for port in rule["ports"]] for rule in spec["egress"]]
    assert ports == [[443, 6443], [53, 53], [MONITOR_PORT]]


def test_a_network_policy_for_some_still_lets_helm_test_through() -> None:
    some = json.dumps([{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}])
    objects = render("--set", "networkPolicy.enabled=true", "--set-json", f"networkPolicy.metricsFrom={some}")
    (rule,) = one(objects, "NetworkPolicy")["spec"]["ingress"]
    labels = one(objects, "Pod")["metadata"]["labels"]
    assert {"podSelector": {"matchLabels": labels}} in rule["from"]
    assert len(rule["from"]) == 2


def test_no_selector_of_the_operator_takes_the_test_pod() -> None:
    objects = render(*TWO, "--set", "networkPolicy.enabled=true", "--set", "serviceMonitor.enabled=true", *MONITORING)
    labels = one(objects, "Pod")["metadata"]["labels"].items()
    service = one(objects, "Service")["spec"]["selector"]
    assert not service.items() <= labels
    for kind in ("PodDisruptionBudget", "Deployment", "ServiceMonitor"):
        assert one(objects, kind)["spec"]["selector"]["matchLabels"] == service


def test_a_service_monitor_takes_the_operators_pod_monitors_place() -> None:
    objects = render("--set", "serviceMonitor.enabled=true", "--set", "podMonitor.interval=7s", *MONITORING)
    (jobs,) = [item for item in objects if item["kind"] == "PodMonitor"]
    assert jobs["spec"]["selector"]["matchLabels"][LABEL_COMPONENT] == "head"
    monitor = one(objects, "ServiceMonitor")["spec"]
    (endpoint,) = monitor["endpoints"]
    assert endpoint == {"port": "metrics", "path": "/metrics", "honorLabels": True, "interval": "7s"}
    service = one(objects, "Service")
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert service["spec"]["ports"][0]["name"] == endpoint["port"]


def test_plain_scrape_annotations() -> None:
    assert "annotations" not in operator_pod(render())["metadata"]
    objects = render("--set", "scrapeAnnotations.enabled=true", "--set-string", "podAnnotations.other=1")
    annotations = operator_pod(objects)["metadata"]["annotations"]
    (port,) = operator_pod(objects)["spec"]["containers"][0]["ports"]
    assert annotations == {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(port["containerPort"]),
        "prometheus.io/path": "/metrics",
        "other": "1",
    }
    assert environment(objects)["PPOJOB_OPERATOR_SCRAPE_ANNOTATIONS"] == "true"


def test_every_setting_of_the_operator_comes_from_a_value() -> None:
    assert {option.variable for option in OPTIONS} == set(environment(render()))


def test_more_environment() -> None:
    given = json.dumps([{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}])
    assert environment(render("--set-json", f"extraEnv={given}"))["HTTPS_PROXY"] == "http://proxy:3128"


def test_a_key_of_the_security_context_can_be_left_to_the_cluster() -> None:
    objects = render("--set", "podSecurityContext.runAsUser=null", "--set", "podSecurityContext.runAsGroup=null")
    pods = [operator_pod(objects)["spec"], one(objects, "Pod")["spec"]]
    assert [set(pod["securityContext"]) for pod in pods] == [{"runAsNonRoot", "seccompProfile"}] * 2


def test_a_digest_wins_over_a_tag() -> None:
    digest = "sha256:" + "0" * 64
    objects = render("--set", "image.repository=reg/op", "--set", "image.tag=x", "--set", f"image.digest={digest}")
    images = [
        operator_pod(objects)["spec"]["containers"][0]["image"],
        one(objects, "Pod")["spec"]["containers"][0]["image"],
    ]
    assert images == [f"reg/op@{digest}"] * 2
    assert run("template", "r", CHART, "--set", "image.digest=latest").returncode != 0


@pytest.mark.parametrize("place", ["nodeSelector", "tolerations"])
def test_the_test_pod_goes_where_the_operator_goes(place: str) -> None:
    values = {"nodeSelector": '{"disk": "fast"}', "tolerations": '[{"operator": "Exists"}]'}
    objects = render("--set-json", f"{place}={values[place]}")
    assert one(objects, "Pod")["spec"][place] == operator_pod(objects)["spec"][place]


def described(schema: dict[str, Any], path: str = "") -> dict[str, dict[str, Any]]:
    """Schemas of values by path; a map that may have any key has no parts."""
    found = {}
    for name, part in schema["properties"].items():
        inner = described(part, f"{path}{name}.") if part.get("properties") and name != "resources" else {}
        found |= inner or {f"{path}{name}": part}
    return found


def test_the_schema_has_every_value_and_no_other() -> None:
    schema = described(json.loads((CHART / "values.schema.json").read_text()))
    values = leaves(yaml.safe_load((CHART / "values.yaml").read_text()))
    assert set(schema) - {"global"} == set(values)


def test_a_value_without_a_comment_is_refused() -> None:
    values = "# -- Told\na: 1\nb:\n  # -- Told\n  # on two lines\n  c: []\n"
    assert list(documented(values)) == [("a", "1", "Told"), ("b.c", "[]", "Told on two lines")]
    with pytest.raises(UndocumentedValue, match=r"b\.d"):
        list(documented(values + "  d: 1\n"))
    with pytest.raises(UndocumentedValue, match="lacks the lines"):
        readme("# Chart\n", values)
