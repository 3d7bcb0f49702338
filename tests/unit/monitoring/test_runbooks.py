"""Each alert has a page that says what to look at and do, with fields that exist."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.support.schema import SCHEMA

from ppojob_contract.metrics import FROM_STATUS, OPERATOR_METRICS, TRAINER_METRICS
from ppojob_operator.codegen.monitoring.alerts import ALERTS

DOCS = Path(__file__).parents[3] / "docs"
PAGES = {path.stem: path.read_text() for path in (DOCS / "runbooks").glob("*.md")}
SPEC: dict[str, Any] = SCHEMA["properties"]["spec"]
METRICS = {metric.name for metric in (*TRAINER_METRICS, *FROM_STATUS, *OPERATOR_METRICS)}


def test_every_alert_has_a_page_and_every_page_an_alert() -> None:
    assert set(PAGES) == {alert.name for alert in ALERTS}


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_says_what_it_means_what_to_look_at_and_what_to_do(name: str) -> None:
    headings = re.findall(r"^#+ (.+)$", PAGES[name], re.MULTILINE)
    assert headings == [name, "Look at", "Do"]
    meaning, look, do = re.split(r"^#+ .+$", PAGES[name], flags=re.MULTILINE)[1:]
    assert meaning.strip()
    assert "- " in look
    assert "- " in do


@pytest.mark.parametrize("name", sorted(PAGES))
def test_fields_and_metrics_on_a_page_exist(name: str) -> None:
    named = re.findall(r"`(?:spec\.)?([a-z]\w+)\.([\w.]+)(?:: \w+)?`", PAGES[name])
    assert [f"{block}.{path}" for block, path in named if block in SPEC["properties"] and not exists(block, path)] == []
    assert set(re.findall(r"`(ppojob_[a-z_]+)`", PAGES[name])) <= METRICS


def exists(block: str, path: str) -> bool:
    node = SPEC["properties"][block]
    for name in path.split("."):
        node = node.get("properties", {}).get(name)
        if node is None:
            return False
    return True


def test_alerts_say_whom_and_what() -> None:
    for alert in ALERTS:
        assert alert.hold
        assert "$labels.ppojob" in alert.summary or alert.name == "PPOJobOperatorDown"
        assert alert.description.endswith(".")
