"""`python -m tests.rules.record NAMESPACE NAME FILE`: keeps what Prometheus has of a run, for the tests of the rules.

Only metrics that the rules use, in steps of 5 seconds, without the labels of pods and targets. The run ended within the
last hour; its time begins with its first sample.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

from tests.support.kube import Kube
from tests.support.promtool import RULES

from ppojob_contract.metrics import FROM_STATUS, OPERATOR_METRICS, TRAINER_METRICS

INTERVAL = 5
LABELS = {label for metric in (*TRAINER_METRICS, *FROM_STATUS) for label in metric.labels}
OF_OPERATOR = {metric.name for metric in OPERATOR_METRICS}


def record(kube: Kube, namespace: str, name: str) -> dict[str, Any]:
    """Series of the job by name and labels, and the operator's of the same time."""
    used = sorted(set(re.findall(r"\bppojob_\w+", RULES.read_text())))
    of_operator = [metric for metric in used if metric in OF_OPERATOR]
    job = f'{{__name__=~"{"|".join(set(used) - OF_OPERATOR)}",namespace="{namespace}",ppojob="{name}"}}'
    now = time.time()
    window = {"start": str(now - 3600), "end": str(now), "step": str(INTERVAL)}
    found = kube.prometheus("query_range", query=job, **window)["result"]
    times = [at for series in found for at, _ in series["values"]]
    begin, end = min(times), max(times)
    for metric in of_operator:
        found += kube.prometheus(
            "query_range", query=f"max({metric})", start=str(begin), end=str(end), step=str(INTERVAL)
        )["result"]
        found[-1]["metric"]["__name__"] = metric
    series: dict[str, list[float | None]] = {}
    for item in found:
        key = _key(item["metric"])
        values = series.setdefault(key, [None] * (round((end - begin) / INTERVAL) + 1))
        for at, text in item["values"]:
            values[round((at - begin) / INTERVAL)] = float(text) - (begin if "_timestamp_" in key else 0.0)
    return {"interval": INTERVAL, "series": dict(sorted(series.items()))}


def _key(labels: dict[str, str]) -> str:
    own = ",".join(f'{name}="{value}"' for name, value in sorted(labels.items()) if name in LABELS)
    return f"{labels['__name__']}{{{own}}}"


def main(namespace: str, name: str, file: str) -> None:
    data = record(Kube.connect(), namespace, name)
    lines = [f" {json.dumps(key)}: {json.dumps(values)}" for key, values in data["series"].items()]
    body = ",\n".join(lines)
    Path(file).write_text(f'{{"interval": {data["interval"]}, "series": {{\n{body}\n}}}}\n')


if __name__ == "__main__":
    main(*sys.argv[1:])
