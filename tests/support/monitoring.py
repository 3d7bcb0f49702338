"""Every query of the dashboards and every rule, asked of the real Prometheus after a run with a rollback.

`pytest -s` prints the tables. What has no data on this cluster is listed here with its reason; nothing else may.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from tests.support.kube import Kube, wait_for
from tests.support.run import Run

from ppojob_contract.journal import RowKind
from ppojob_operator.codegen.monitoring.alerts import ALERTS
from ppojob_operator.codegen.monitoring.dashboards import DASHBOARDS
from ppojob_operator.codegen.monitoring.records import RECORDS

WITHOUT_DATA = {
    ("PPOJob", "Device memory", "trainer's peak"): "needs a GPU",
    ("PPOJob", "Device memory by role", "{{role}} {{kind}}"): "needs a GPU",
    ("PPOJob", "Restarts", "annotation"): "no attempt crashed",
    ("PPOJob", "Reward model in training", "{{key}}"): "the job has no stages",
    ("PPOJob", "Win rate against the baseline", "{{key}}"): "the job has no stages",
    ("PPOJob operator", "Failed passes", "{{namespace}}/{{ppojob}} {{error}}"): "no pass failed",
    ("PPOJob operator", "Restarts", "{{class}}"): "no attempt crashed",
}
"""(dashboard, panel, query): why."""
FIRED = {"PPOJobGuardrailBreached", "PPOJobRolledBack"}


@dataclass(frozen=True)
class Asked:
    """A query as the dashboard sends it."""

    dashboard: str
    panel: str
    legend: str
    expression: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.dashboard, self.panel, self.legend


def queries(run: Run) -> Iterator[Asked]:
    for dashboard in DASHBOARDS.values():
        asked = [
            *((panel.title, query.legend, query.expression) for panel in dashboard.panels for query in panel.queries),
            *((mark.name, "annotation", mark.expression) for mark in dashboard.marks),
        ]
        for panel, legend, expression in asked:
            yield Asked(dashboard.title, panel, legend, _filled_in(expression, run))


def _filled_in(expression: str, run: Run) -> str:
    return expression.replace("$namespace", run.namespace).replace("$job", run.name)


def series_between(kube: Kube, expression: str, begin: float, end: float) -> int:
    """Series with at least one sample."""
    found = kube.prometheus("query_range", query=expression, start=f"{begin}", end=f"{end}", step="5")
    return len(found["result"])


def prepare(run: Run) -> None:
    """What the example lacks for every panel to have data."""
    run.spec["training"]["validateEverySteps"] = 10
    run.spec["rollout"] = {"samplesPerPrompt": 2}


def check(run: Run, begin: float, end: float) -> None:
    """Of a run that has ended after one rollback, between those seconds since the epoch; deletes the job."""
    _check_goodput(run, run.status["goodput"])
    _check_queries(run, begin, end)
    _check_rules(run, begin, end)
    _check_nothing_is_left(run)


def _check_goodput(run: Run, goodput: dict[str, float]) -> None:
    written = [row for attempt in (1, 2) for row in run.journal(attempt) if row.kind is RowKind.STEP]
    assert goodput["steps"] == len(written) > goodput["usefulSteps"] == run.spec["training"]["totalSteps"]
    assert 0 < goodput["trainingSeconds"] < goodput["heldSeconds"]
    print(f"\ngoodput: {goodput}")


def _check_queries(run: Run, begin: float, end: float) -> None:
    counted = {asked: series_between(run.kube, asked.expression, begin, end) for asked in queries(run)}
    print("\n| dashboard | panel | query | series |\n| --- | --- | --- | --- |")
    for asked, count in counted.items():
        shown = str(count) if count else f"0: {WITHOUT_DATA.get(asked.key, 'MISSING')}"
        print(f"| {asked.dashboard} | {asked.panel} | {asked.legend} | {shown} |")
    empty = {asked.key for asked, count in counted.items() if not count}
    assert empty - set(WITHOUT_DATA) == set(), "queries without data"
    assert set(WITHOUT_DATA) <= {asked.key for asked in counted}, "the list names queries that there are not"


def _check_rules(run: Run, begin: float, end: float) -> None:
    groups = run.kube.prometheus("rules")["groups"]
    loaded = {rule["name"]: rule for group in groups for rule in group["rules"] if group["name"].startswith("ppojob-")}
    assert set(loaded) == {item.name for item in (*RECORDS, *ALERTS)}
    assert {name: rule["lastError"] for name, rule in loaded.items() if rule["health"] != "ok"} == {}
    print("\n| rule | series in the run |\n| --- | --- |")
    job = f'namespace="{run.namespace}",ppojob="{run.name}"'
    for record in RECORDS:
        recorded = series_between(run.kube, f"{record.name}{{{job}}}", begin, end)
        print(f"| {record.name} | {recorded} |")
        assert recorded == 1
    fired = set()
    for alert in ALERTS:
        firing = f'ALERTS{{alertname="{alert.name}",alertstate="firing",{job}}}'
        count = series_between(run.kube, firing, begin, end)
        print(f"| {alert.name} | {f'fired {count}' if count else 'silent'} |")
        fired |= {alert.name} if count else set()
    assert fired == FIRED


def _check_nothing_is_left(run: Run) -> None:
    """Series of a deleted job vanish, those of its pods too."""
    everything = f'count({{ppojob="{run.name}",namespace="{run.namespace}",__name__!~"ALERTS.*|.*:.*"}})'
    assert run.kube.values(everything)[0] > 10
    run.kube.kubectl("delete", "ppojobs.rlhf.dev", run.name, "-n", run.namespace, "--wait", "--timeout=60s")
    began = time.monotonic()
    wait_for("series gone", lambda: not run.kube.values(everything), seconds=60)
    print(f"\nall series of the deleted job were gone after {time.monotonic() - began:.0f} s")
