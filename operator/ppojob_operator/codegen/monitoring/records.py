"""Recording rules: what alerts compare over hours, and what is worth keeping when the raw series are dropped.

Named `level:metric:operation` as Prometheus recommends; all have one series a job.
"""

from dataclasses import dataclass
from typing import Final

from ppojob_operator.api.v1alpha1.status import CheckpointPhase
from ppojob_operator.codegen.monitoring import queries as q


@dataclass(frozen=True, slots=True)
class Record:
    """A series that Prometheus computes at each evaluation."""

    name: str
    meaning: str
    expression: str


STEP_GOODPUT: Final = Record(
    "namespace_ppojob:ppojob_goodput_steps:ratio",
    "Share of all trained steps that led to the weights of now",
    q.step_goodput(),
)
TIME_GOODPUT: Final = Record(
    "namespace_ppojob:ppojob_goodput_time:ratio",
    "Share of the time for which a RayCluster was held that was spent in steps",
    q.time_goodput(),
)
UNSAVED: Final = Record(
    "namespace_ppojob:ppojob_unsaved_steps:max",
    "Steps since the newest complete checkpoint: what a crash would cost",
    q.steps_behind(CheckpointPhase.COMPLETE),
)
UNCONFIRMED: Final = Record(
    "namespace_ppojob:ppojob_unconfirmed_steps:max",
    "Steps since the newest confirmed checkpoint: what a rollback would cost",
    q.steps_behind(CheckpointPhase.CONFIRMED),
)
STEP_SECONDS: Final = Record(
    "namespace_ppojob:ppojob_step_duration_seconds:mean", "Mean duration of all steps so far", q.mean_step_seconds()
)
TOKEN_RATE: Final = Record("namespace_ppojob:ppojob_tokens:rate5m", "Tokens a second over five minutes", q.token_rate())
REWARD: Final = Record("namespace_ppojob:ppojob_reward_mean:avg10m", "Mean reward over ten minutes", q.smooth_reward())

RECORDS: Final = (STEP_GOODPUT, TIME_GOODPUT, UNSAVED, UNCONFIRMED, STEP_SECONDS, TOKEN_RATE, REWARD)
