"""Dashboards: what Grafana needs to load them, what a reader needs to use them, and only metrics that exist."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.models.dashboard import Dashboard as GrafanaDashboard

from ppojob_contract.metrics import FROM_STATUS, OPERATOR_METRICS, TRAINER_METRICS, MetricType
from ppojob_operator.codegen.monitoring.dashboards import DASHBOARDS

FOLDER = Path(__file__).parents[3] / "charts" / "ppojob-operator" / "files" / "dashboards"
FILES = {path.stem: json.loads(path.read_text()) for path in FOLDER.glob("*.json")}
HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")
NOT_DRAWN = {
    "ppojob_last_step_timestamp_seconds": "alerts look at it",
    "ppojob_verl": "verl's own keys, for whoever looks for one",
    "ppojob_figures_left_out": "about the exporter",
    "ppojob_condition": "alerts look at it",
    "ppojob_paused": "alerts look at it",
    "ppojob_checkpoint_interval_steps": "alerts look at it",
    "ppojob_confirmation_window_steps": "alerts look at it",
}


def expressions(name: str) -> list[str]:
    targets = [target["expr"] for panel in FILES[name]["panels"] for target in panel.get("targets", [])]
    marks = [mark["expr"] for mark in FILES[name]["annotations"].get("list", [])]
    return targets + marks


def panels(name: str) -> list[dict[str, Any]]:
    return [panel for panel in FILES[name]["panels"] if panel["type"] != "row"]


def test_links_and_bookmarks_hold() -> None:
    assert {name: value["uid"] for name, value in FILES.items()} == {
        "fleet": "ppojob-fleet",
        "job": "ppojob-job",
        "operator": "ppojob-operator",
    }


@pytest.mark.parametrize("name", FILES)
def test_grafanas_model_reads_it_without_loss(name: str) -> None:
    read = GrafanaDashboard.from_json(FILES[name]).to_json()
    assert {key: value for key, value in FILES[name].items() if key not in read} == {}


@pytest.mark.parametrize("name", FILES)
def test_each_panel_says_what_good_looks_like(name: str) -> None:
    assert [panel["title"] for panel in panels(name) if len(panel.get("description", "")) < 2] == []
    titles = [panel["title"] for panel in panels(name)]
    assert len(titles) == len(set(titles))


@pytest.mark.parametrize("name", FILES)
def test_panels_have_their_own_place_and_id(name: str) -> None:
    places = [panel["gridPos"] for panel in FILES[name]["panels"]]
    for one, other in itertools.combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above, (one, other)
    assert all(place["x"] + place["w"] <= 24 for place in places)
    ids = [panel["id"] for panel in FILES[name]["panels"]]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", FILES)
def test_every_source_is_the_chosen_one(name: str) -> None:
    text = json.dumps(FILES[name]["panels"]) + json.dumps(FILES[name]["annotations"])
    assert set(re.findall(r'"uid": "([^"]+)"', text)) == {"${datasource}"}
    variables = [item["name"] for item in FILES[name]["templating"]["list"]]
    assert variables == ["datasource", "namespace", "job"] if DASHBOARDS[name].has_jobs else ["datasource"]


@pytest.mark.parametrize("name", ["fleet", "job"])
def test_every_query_is_about_the_chosen_jobs(name: str) -> None:
    for expression in expressions(name):
        selectors = re.findall(r"\bppojob_[a-z_]+(?:\{[^}]*\})?", re.sub(r"by \([^)]*\)", "", expression))
        assert [found for found in selectors if "$namespace" not in found or "$job" not in found] == []


@pytest.mark.parametrize("name", FILES)
def test_only_declared_metrics(name: str) -> None:
    declared = set()
    for metric in (*TRAINER_METRICS, *FROM_STATUS, *OPERATOR_METRICS):
        parts = HISTOGRAM_PARTS if metric.type is MetricType.HISTOGRAM else ("",)
        declared |= {metric.name + part for part in parts}
    used = {found for text in expressions(name) for found in re.findall(r"\bppojob_[a-z_]+", text)}
    assert used
    assert used <= declared


def test_every_metric_is_drawn_somewhere() -> None:
    everything = " ".join(text for name in FILES for text in expressions(name))
    missing = [m.name for m in (*TRAINER_METRICS, *FROM_STATUS, *OPERATOR_METRICS) if m.name not in everything]
    assert sorted(missing) == sorted(NOT_DRAWN)
