"""The chart's alerts and dashboards: generated files, as the operators of Prometheus and Grafana take them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.support.chart import CHART, MONITORING, kinds, one, render

RULES = yaml.safe_load((CHART / "files" / "rules.yaml").read_text())
DASHBOARDS = sorted((CHART / "files" / "dashboards").glob("*.json"))


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ((), 0),
        (MONITORING, 1),
        (("--set", "prometheusRule.enabled=true"), 1),
        ((*MONITORING, "--set", "prometheusRule.enabled=false"), 0),
    ],
)
def test_rules_follow_the_cluster_unless_told(arguments: tuple[str, ...], count: int) -> None:
    assert kinds(render(*arguments))["PrometheusRule"] == count


def test_rules_are_the_generated_ones() -> None:
    rule = one(render(*MONITORING, "--set", "prometheusRule.labels.release=prometheus"), "PrometheusRule")
    assert rule["spec"] == RULES
    assert rule["metadata"]["labels"]["release"] == "prometheus"


def alerts(spec: Any) -> Iterator[dict[str, Any]]:
    return (rule for group in spec["groups"] for rule in group["rules"] if "alert" in rule)


def test_only_an_address_is_a_runbooks_link() -> None:
    annotations = [alert["annotations"] for alert in alerts(one(render(*MONITORING), "PrometheusRule")["spec"])]
    assert not any("runbook_url" in item for item in annotations)
    assert all((CHART.parents[1] / item["runbook"]).exists() for item in annotations)


def test_runbooks_can_be_elsewhere() -> None:
    rule = one(render(*MONITORING, "--set", "prometheusRule.runbooks=https://wiki.example.com/ppo/"), "PrometheusRule")
    found = {alert["annotations"]["runbook_url"] for alert in alerts(rule["spec"])}
    assert found == {f"https://wiki.example.com/ppo/{alert['alert']}.md" for alert in alerts(RULES)}


def test_dashboards_are_for_those_who_want_them() -> None:
    assert kinds(render())["ConfigMap"] == 0
    values = ("--set", "dashboards.enabled=true", "--set", "dashboards.namespace=grafana")
    maps = [item for item in render(*values) if item["kind"] == "ConfigMap"]
    assert [list(item["data"]) for item in maps] == [[path.name] for path in DASHBOARDS]
    for item, path in zip(maps, DASHBOARDS, strict=True):
        assert item["metadata"]["namespace"] == "grafana"
        assert item["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert json.loads(item["data"][path.name]) == json.loads(path.read_text())
