"""What alerts and dashboards both look at: figures made from several metrics, and the bounds they are held against.

Each takes matchers that narrow it down to what a dashboard shows; alerts look at all jobs.
"""

from typing import Final

from ppojob_contract import metrics as m
from ppojob_operator.api.v1alpha1.status import CheckpointPhase, Phase
from ppojob_operator.codegen.monitoring.promql import by_job, figure, series

KL_NOTICE: Final = 0.02
"""KL to the reference that deserves a look."""
KL_HIGH: Final = 0.2
"""KL to the reference at which a policy has usually left what the reward was made for."""
DEVICE_MEMORY_HIGH: Final = 0.8
GENERATION_SLOW_SECONDS: Final = 20

GENERATION_STAGE: Final = "gen"
"""verl's name of it."""


def step(*matchers: str) -> str:
    """Last finished step."""
    return by_job(series(m.STEP, *matchers))


def all_steps_done(*matchers: str) -> str:
    """Has a value for jobs that have nothing more to train: they are being evaluated or exported."""
    return f"{step(*matchers)} >= {by_job(series(m.TARGET_STEPS, *matchers))}"


def newest(state: CheckpointPhase, *matchers: str) -> str:
    """Step of the newest checkpoint in a state."""
    return by_job(series(m.CHECKPOINT_STEP, *matchers, state=state))


def steps_behind(state: CheckpointPhase, *matchers: str) -> str:
    """Steps trained since the newest checkpoint in that state; all where there is none."""
    return f"{step(*matchers)} - ({newest(state, *matchers)} or {step(*matchers)} * 0)"


def step_goodput(*matchers: str) -> str:
    """Share of all trained steps that led to the weights of now."""
    return f"{by_job(series(m.USEFUL_STEPS, *matchers))} / ({by_job(series(m.STEPS, *matchers))} > 0)"


def time_goodput(*matchers: str) -> str:
    """Share of the time for which a RayCluster was held that was spent in steps."""
    return f"{by_job(series(m.TRAINING_SECONDS, *matchers))} / ({by_job(series(m.HELD_SECONDS, *matchers))} > 0)"


def mean_step_seconds(*matchers: str) -> str:
    """Over all steps of the job so far."""
    total, count = (by_job(series(m.STEP_DURATION, *matchers, part=part)) for part in ("sum", "count"))
    return f"{total} / ({count} > 0)"


def recent_step_seconds(*matchers: str) -> str:
    """Over the steps of the last five minutes."""
    rates = [by_job(f"rate({series(m.STEP_DURATION, *matchers, part=part)}[5m])") for part in ("sum", "count")]
    return f"{rates[0]} / ({rates[1]} > 0)"


def seconds_since_last_step(*matchers: str) -> str:
    """By Prometheus' clock and the trainer's."""
    return f"time() - {by_job(series(m.LAST_STEP_TIME, *matchers))}"


def token_rate(*matchers: str) -> str:
    """Tokens a second."""
    return by_job(f"rate({series(m.TOKENS, *matchers)}[5m])")


def of(name: str, *matchers: str) -> str:
    """A figure of the last step."""
    return by_job(figure(name, *matchers))


def stage_seconds(stage: str, *matchers: str) -> str:
    """Duration of one stage of the last step."""
    return by_job(series(m.STAGE_DURATION, *matchers, stage=stage))


def smooth_reward(*matchers: str) -> str:
    """Mean reward over ten minutes."""
    return by_job(f"avg_over_time({figure('rewardMean', *matchers)}[10m])")


def growth(metric: m.Metric, window: str, *matchers: str, by: tuple[str, ...] = ()) -> str:
    """Exact growth of a counter that the operator tells of a job, also where another operator took over meanwhile.

    `increase()` looks at each operator's series alone, and extrapolates.
    """
    selected = series(metric, *matchers)
    before = by_job(f"min_over_time({selected}[{window}])", *by, aggregation="min")
    return f"{by_job(selected, *by)} - {before}"


def phase(*phases: Phase) -> str:
    """Has a value for jobs in one of the phases."""
    return series(m.PHASE, f'phase=~"{"|".join(phases)}"')
