"""The rules as Prometheus reads them."""

from typing import Any, Final

from ppojob_operator.codegen.monitoring.alerts import JOB_ALERTS, OPERATOR_ALERTS, Alert
from ppojob_operator.codegen.monitoring.records import RECORDS

RUNBOOKS: Final = "docs/runbooks"
"""In this repository; a link where the chart's value `prometheusRule.runbooks` says at which address."""


def rule_groups() -> dict[str, Any]:
    """Recording rules come first: rules of a group are evaluated in order, and alerts build on them."""
    records = [{"record": item.name, "expr": item.expression} for item in RECORDS]
    return {
        "groups": [
            {"name": "ppojob-jobs", "rules": [*records, *map(_alert, JOB_ALERTS)]},
            {"name": "ppojob-operator", "rules": [*map(_alert, OPERATOR_ALERTS)]},
        ]
    }


def _alert(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": alert.hold,
        "labels": {"severity": alert.severity.value},
        "annotations": {
            "summary": alert.summary,
            "description": alert.description,
            "runbook": f"{RUNBOOKS}/{alert.name}.md",
        },
    }
