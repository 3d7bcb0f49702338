"""Queries from declared metrics.

Every query gives one series a job, whichever pod it came from: a job's figures move to another pod when its RayCluster
is replaced, what the operator tells of it when another operator leads.
"""

from ppojob_contract.metrics import JOB_LABELS, Metric, MetricType, of_figure

BY_JOB = ", ".join(JOB_LABELS)


def series(metric: Metric, *matchers: str, part: str = "", **equal: str) -> str:
    """A selector; `part` is `bucket`, `sum` or `count` of a histogram. Raises KeyError for what the metric has not."""
    labels = [*(f'{name}="{value}"' for name, value in equal.items()), *matchers]
    for label in labels:
        name = label.partition("=")[0].rstrip("!")
        if name not in (*metric.labels, "le"):
            raise KeyError(f"{metric.name} has no label {name}")
    if (metric.type is MetricType.HISTOGRAM) != bool(part):
        raise KeyError(f"{metric.name}: buckets, sum and count are of histograms, and histograms have nothing else")
    return metric.name + (f"_{part}" if part else "") + (f"{{{','.join(labels)}}}" if labels else "")


def figure(name: str, *matchers: str) -> str:
    """A selector of the series of one of `ppojob_contract.figures`."""
    metric, labels = of_figure(name)
    return series(metric, *matchers, **labels)


def by_job(inner: str, *labels: str, aggregation: str = "max") -> str:
    """One series for each job, and for each value of `labels`."""
    return f"{aggregation} by ({', '.join((*JOB_LABELS, *labels))}) ({inner})"


def unless(expression: str, condition: str) -> str:
    """The expression, of jobs for which the condition has no value."""
    return f"({expression}) unless on ({BY_JOB}) ({condition})"


def when(expression: str, condition: str) -> str:
    """The expression, of jobs for which the condition has a value."""
    return f"({expression}) and on ({BY_JOB}) {condition}"
