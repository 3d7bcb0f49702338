"""Dashboard *PPOJobs*: all jobs at once."""

from typing import Final

from ppojob_contract import metrics as m
from ppojob_operator.codegen.monitoring import queries as q
from ppojob_operator.codegen.monitoring.panels import OF_JOBS, Dashboard, Look, Panel, Query, Row
from ppojob_operator.codegen.monitoring.promql import by_job, series

_JOB: Final = "{{namespace}}/{{ppojob}}"


def _told(metric: m.Metric, **equal: str) -> str:
    return by_job(series(metric, *OF_JOBS, **equal))


_BREACHED = by_job(series(m.BREACHES, *OF_JOBS), "guardrail")

_OVERVIEW = Row(
    "Overview",
    (
        Panel(
            title="Jobs by phase",
            good="Most in Running. RollingBack and Restarting pass within minutes; Failed ones wait for somebody.",
            queries=(Query(f"count by (phase) ({by_job(series(m.PHASE, *OF_JOBS), 'phase')})", "{{phase}}"),),
            look=Look.NUMBER,
            width=9,
            height=4,
        ),
        Panel(
            title="Step goodput",
            good="Useful steps of all steps, over all jobs. Above 95 %: rollbacks and crashes cost little.",
            queries=(Query(f"sum({_told(m.USEFUL_STEPS)}) / (sum({_told(m.STEPS)}) > 0)", "useful"),),
            unit="percentunit",
            look=Look.NUMBER,
            width=5,
            height=4,
            low=0,
            high=1,
        ),
        Panel(
            title="Time goodput",
            good="Time in finished steps of the time for which RayClusters were held. The rest is start-up, loading, "
            "validation, waiting: above 80 % for runs of hours.",
            queries=(Query(f"sum({_told(m.TRAINING_SECONDS)}) / (sum({_told(m.HELD_SECONDS)}) > 0)", "training"),),
            unit="percentunit",
            look=Look.NUMBER,
            width=5,
            height=4,
            low=0,
            high=1,
        ),
        Panel(
            title="Rollbacks",
            good="Of all jobs that exist. None is best; some are what guardrails are for.",
            queries=(Query(f"sum({_told(m.JOB_ROLLBACKS)})", "rollbacks"),),
            look=Look.NUMBER,
            width=5,
            height=4,
        ),
        Panel(
            title="Jobs",
            good="One line for each job. Goodput near 100 %, no rollbacks, KL below its guardrail.",
            queries=(
                Query(f"{_told(m.STEP)} or {_told(m.USEFUL_STEPS)}", "step"),
                Query(_told(m.TARGET_STEPS), "of steps"),
                Query(q.token_rate(*OF_JOBS), "tokens/s"),
                Query(q.of("rewardMean", *OF_JOBS), "reward"),
                Query(q.of("kl", *OF_JOBS), "KL"),
                Query(_told(m.JOB_ROLLBACKS), "rollbacks"),
                Query(_told(m.JOB_RESTARTS), "restarts"),
                Query(q.step_goodput(*OF_JOBS), "step goodput"),
                Query(q.time_goodput(*OF_JOBS), "time goodput"),
            ),
            look=Look.TABLE,
            width=24,
            height=9,
        ),
    ),
)

_COURSE = Row(
    "Course",
    (
        Panel(
            title="Phase",
            good="Long stretches of Running, one colour at a time.",
            queries=(Query(by_job(series(m.PHASE, *OF_JOBS), "phase"), f"{_JOB} {{{{phase}}}}"),),
            look=Look.STATES,
            width=12,
        ),
        Panel(
            title="Progress",
            good="Rises steadily to 100 %. A step back is a rollback.",
            queries=(Query(f"{_told(m.STEP)} / ({_told(m.TARGET_STEPS)} > 0)", _JOB),),
            unit="percentunit",
            width=12,
            low=0,
            high=1,
        ),
        Panel(
            title="Throughput",
            good="Flat. Falling slowly goes with longer responses; falling to 0 is a job that hangs.",
            queries=(Query(q.token_rate(*OF_JOBS), _JOB),),
            unit="short",
            low=0,
        ),
        Panel(
            title="Reward",
            good="Rises, then levels off. A fall deserves a look at the job's own dashboard.",
            queries=(Query(q.of("rewardMean", *OF_JOBS), _JOB),),
        ),
        Panel(
            title="KL to the reference",
            good=f"Below {q.KL_NOTICE} early on, rising slowly; rarely above {q.KL_HIGH}.",
            queries=(Query(q.of("kl", *OF_JOBS), _JOB),),
            bounds=((q.KL_NOTICE, "yellow"), (q.KL_HIGH, "red")),
        ),
        Panel(
            title="Breaches",
            good="Flat. Each rise is a guardrail that was breached; counted since the operator serves the job.",
            queries=(Query(_BREACHED, f"{_JOB} {{{{guardrail}}}}"),),
            low=0,
        ),
        Panel(
            title="Rollbacks and restarts",
            good="Flat lines. Steps that come closer together: the job does not get out of it by itself.",
            queries=(
                Query(_told(m.JOB_ROLLBACKS), f"{_JOB} rollbacks"),
                Query(_told(m.JOB_RESTARTS), f"{_JOB} restarts"),
            ),
            low=0,
        ),
        Panel(
            title="Step goodput by job",
            good="Close to 100 %. It falls with each rollback by the steps that were lost.",
            queries=(Query(q.step_goodput(*OF_JOBS), _JOB),),
            unit="percentunit",
            low=0,
            high=1,
        ),
    ),
)

FLEET: Final = Dashboard(
    uid="ppojob-fleet",
    title="PPOJobs",
    about="All PPOJobs: what they do, how far they are, what they lost.",
    rows=(_OVERVIEW, _COURSE),
    many_jobs=True,
)
