"""Dashboard *PPOJob operator*: whether the operator does its work."""

from typing import Final

from ppojob_contract import metrics as m
from ppojob_operator.codegen.monitoring.panels import Dashboard, Look, Panel, Query, Row
from ppojob_operator.codegen.monitoring.promql import by_job, series


def _rate(metric: m.Metric, *labels: str) -> str:
    return f"sum by ({', '.join(labels)}) (rate({series(metric)}[5m]))"


def _quantile(metric: m.Metric, share: float, window: str) -> str:
    return f"histogram_quantile({share}, sum by (le) (rate({series(metric, part='bucket')}[{window}])))"


def _mean(metric: m.Metric) -> str:
    return f"sum({series(metric, part='sum')}) / (sum({series(metric, part='count')}) > 0)"


def _process(name: str) -> str:
    """A series that every Prometheus client has of its process, of the operators only."""
    return f"{name} and on (job, instance) {series(m.LEADER)}"


_STATE = Row(
    "State",
    (
        Panel(
            title="Leaders",
            good="Exactly 1. None: nothing is looked after. More than 1 for longer than a scrape: report it.",
            queries=(Query(f"sum({series(m.LEADER)})", "leaders"),),
            look=Look.NUMBER,
            width=4,
            height=4,
        ),
        Panel(
            title="Operators",
            good="As many as `replicas`.",
            queries=(Query(f"count({series(m.LEADER)})", "operators"),),
            look=Look.NUMBER,
            width=4,
            height=4,
        ),
        Panel(
            title="Jobs",
            good="All PPOJobs that the leader serves, by phase.",
            queries=(Query(f"max by (phase) ({series(m.JOBS)}) > 0", "{{phase}}"),),
            look=Look.NUMBER,
            width=16,
            height=4,
        ),
    ),
)

_WORK = Row(
    "Work",
    (
        Panel(
            title="Passes",
            good="A few a second with many jobs; each step and each event causes one.",
            queries=(Query(f"sum (rate({series(m.RECONCILE, part='count')}[5m]))", "passes a second"),),
            unit="ops",
            low=0,
        ),
        Panel(
            title="Duration of a pass",
            good="Half below 50 ms, 99 % below 1 s. More: the API server or a monitor is slow.",
            queries=(
                Query(_quantile(m.RECONCILE, 0.5, "5m"), "median"),
                Query(_quantile(m.RECONCILE, 0.99, "5m"), "99 %"),
            ),
            unit="s",
            low=0,
        ),
        Panel(
            title="Failed passes",
            good="None, or a few Conflicts. A job with many is not looked after as it should be.",
            queries=(
                Query(
                    by_job(f"rate({series(m.RECONCILE_ERRORS)}[5m])", "error", aggregation="sum"),
                    "{{namespace}}/{{ppojob}} {{error}}",
                ),
            ),
            unit="ops",
            low=0,
        ),
        Panel(
            title="Decisions",
            good="Nearly all are Wait. Others come with starts, rollbacks and ends.",
            queries=(Query(_rate(m.DECISIONS, "decision"), "{{decision}}"),),
            unit="ops",
            low=0,
        ),
        Panel(
            title="Requests to the API server",
            good="Mostly 2xx; 409 now and then. Code 0: no answer.",
            queries=(Query(_rate(m.API_REQUESTS, "verb", "code"), "{{verb}} {{code}}"),),
            unit="ops",
            low=0,
        ),
    ),
)

_ACTS = Row(
    "What happened to jobs",
    (
        Panel(
            title="Rollbacks",
            good="Flat. Since this operator started.",
            queries=(Query(f"sum by (path) ({series(m.ROLLBACKS)})", "{{path}}"),),
            low=0,
        ),
        Panel(
            title="Duration of a rollback",
            good="From decision to first step. A minute on CPU; a few minutes for a large model on GPUs.",
            queries=(
                Query(_quantile(m.ROLLBACK_SECONDS, 0.5, "1h"), "median of an hour"),
                Query(_mean(m.ROLLBACK_SECONDS), "mean of all"),
            ),
            unit="s",
            low=0,
        ),
        Panel(
            title="Restarts",
            good="Flat. A class that grows over many jobs is a matter of the cluster, not of a job.",
            queries=(Query(f"sum by (class) ({series(m.RESTARTS)})", "{{class}}"),),
            low=0,
        ),
        Panel(
            title="Deleted checkpoints",
            good="Rises with each checkpoint beyond those that are kept. Since this operator started.",
            queries=(Query(f"sum({series(m.CHECKPOINTS_DELETED)})", "deleted"),),
            low=0,
        ),
    ),
)

_PROCESS = Row(
    "Process",
    (
        Panel(
            title="Memory",
            good="Flat, below 200 MB for a thousand jobs.",
            queries=(Query(_process("process_resident_memory_bytes"), "{{pod}}"),),
            unit="bytes",
            low=0,
        ),
        Panel(
            title="Processor",
            good="Below a tenth of a core.",
            queries=(Query(_process("rate(process_cpu_seconds_total[5m])"), "{{pod}}"),),
            low=0,
        ),
    ),
)

OPERATOR: Final = Dashboard(
    uid="ppojob-operator",
    title="PPOJob operator",
    about="Whether PPOJobs are looked after, how fast, and what it takes.",
    rows=(_STATE, _WORK, _ACTS, _PROCESS),
    has_jobs=False,
)
