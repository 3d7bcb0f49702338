"""The row about the stages beside training, of the dashboard of one job."""

from typing import Final

from ppojob_contract import metrics as m
from ppojob_operator.codegen.monitoring.panels import OF_JOB, Panel, Query, Row
from ppojob_operator.codegen.monitoring.promql import by_job, series


def _stage(stage: str, keys: str) -> str:
    return by_job(series(m.STAGE_FIGURE, *OF_JOB, f'key=~"{keys}"', stage=stage), "key")


STAGES: Final = Row(
    "Stages beside training",
    (
        Panel(
            title="Reward model in training",
            good="Loss falls below 0.69, accuracy rises above 0.5, and validation follows.",
            queries=(Query(_stage("Reward", "loss|accuracy|margin|validationAccuracy|validationLoss"), "{{key}}"),),
            width=12,
        ),
        Panel(
            title="Win rate against the baseline",
            good="The lower end of the interval is above a half.",
            queries=(Query(_stage("Evaluate", "winRate|winRateLow|winRateHigh"), "{{key}}"),),
            unit="percentunit",
            width=12,
            low=0,
            high=1,
        ),
    ),
)
