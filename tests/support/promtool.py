"""Alerts over series, decided by Prometheus' own `promtool test rules`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from ppojob_contract.metrics import Metric
from ppojob_operator.codegen.monitoring.alerts import ALERTS, Alert
from ppojob_operator.codegen.monitoring.rule_file import RUNBOOKS

REPOSITORY = Path(__file__).resolve().parents[2]
RULES = REPOSITORY / "charts" / "ppojob-operator" / "files" / "rules.yaml"
RECORDED = REPOSITORY / "tests" / "rules" / "recorded"
NAMES = {alert.name: alert for alert in ALERTS}

Values = Sequence[float | None]
"""One sample an interval; None where there is none."""


def promtool() -> str:
    """The binary on PATH, or the one built for the development cluster."""
    built = sorted(Path.home().glob(".cache/ppojob/tools/prometheus-*/bin/promtool"))
    found = shutil.which("promtool") or (str(built[-1]) if built else None)
    if found is None:
        pytest.skip("no promtool: `make cluster-build` builds it")
    return found


def name(metric: Metric | str, namespace: str = "team", ppojob: str = "job", **labels: str) -> str:
    """A series of one job."""
    if isinstance(metric, Metric) and metric.labels[:2] != ("namespace", "ppojob"):
        job: dict[str, str] = {}
    else:
        job = {"namespace": namespace, "ppojob": ppojob}
    shown = ",".join(f'{key}="{value}"' for key, value in (job | labels).items())
    return f"{metric.name if isinstance(metric, Metric) else metric}{{{shown}}}"


@dataclass(frozen=True)
class World:
    """Series, all with the same interval and from time 0 on."""

    series: Mapping[str, Values]
    interval: int = 15

    @property
    def seconds(self) -> int:
        """Time of the last sample."""
        return (max(map(len, self.series.values())) - 1) * self.interval

    @classmethod
    def recorded(cls, run: str, *, slower: int = 1) -> World:
        """A real run; `slower` stretches its time. Timestamps among its values are seconds since its begin."""
        data = json.loads((RECORDED / f"{run}.json").read_text())
        series = {
            key: [None if v is None else v * slower for v in values] if "_seconds" in key.split("{")[0] else values
            for key, values in data["series"].items()
        }
        return cls(series, data["interval"] * slower)

    def frozen_after(self, seconds: int, *, lasting: int) -> World:
        """As if everything had stood still from then on: each series keeps the value that it had."""
        kept = seconds // self.interval + 1
        held = lasting // self.interval
        return World({key: [*v[:kept], *[v[:kept][-1]] * held] for key, v in self.series.items()}, self.interval)

    def values(self, metric: Metric, **labels: str) -> Values:
        """Of the one series of that metric with these labels."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        (found,) = [
            values
            for key, values in self.series.items()
            if key.split("{")[0] == metric.name and all(label in key for label in wanted)
        ]
        return found

    def first(self, metric: Metric, value: float, **labels: str) -> int:
        """When the series first has that value, seconds."""
        return self.values(metric, **labels).index(value) * self.interval


@dataclass(frozen=True)
class Fires:
    """An alert that must not fire before `at`, and fire then."""

    at: int
    summary: str
    labels: Mapping[str, str] = field(default_factory=dict)


def check(folder: Path, world: World, expected: Mapping[str, Fires], silent: Iterable[str]) -> None:
    """Fails with promtool's words. `silent` alerts fire at no evaluation of the whole time."""
    tests = [entry for alert, fires in expected.items() for entry in _firing(NAMES[alert], fires, world.interval)]
    every = range(0, world.seconds + 1, world.interval)
    tests += [{"eval_time": f"{at}s", "alertname": alert} for alert in silent for at in every]
    group = {
        "interval": f"{world.interval}s",
        "input_series": [{"series": key, "values": _notation(values)} for key, values in world.series.items()],
        "alert_rule_test": tests,
    }
    content = {"rule_files": [os.fspath(RULES)], "evaluation_interval": f"{world.interval}s", "tests": [group]}
    file = folder / "test.yaml"
    file.write_text(yaml.safe_dump(content, width=10**9))
    done = subprocess.run([promtool(), "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def _firing(alert: Alert, fires: Fires, interval: int) -> list[dict[str, object]]:
    told = {
        "summary": fires.summary,
        "description": alert.description,
        "runbook": f"{RUNBOOKS}/{alert.name}.md",
    }
    labels = {"severity": alert.severity.value, **fires.labels}
    return [
        {"eval_time": f"{fires.at - interval}s", "alertname": alert.name},
        {
            "eval_time": f"{fires.at}s",
            "alertname": alert.name,
            "exp_alerts": [{"exp_labels": labels, "exp_annotations": told}],
        },
    ]


def _notation(values: Values) -> str:
    """A gap after a sample is one that Prometheus knows of: it marks the series as ended."""
    shown, before = [], None
    for value in values:
        shown.append(repr(float(value)) if value is not None else "stale" if before is not None else "_")
        before = value
    return " ".join(shown)
