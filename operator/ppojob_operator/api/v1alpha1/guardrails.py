"""`PPOJob.spec.guardrails`: what makes a step bad, how often that may happen, and what follows (docs/guardrails.md)."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from ppojob_operator.api.v1alpha1.base import Model, Name, Text, Whole, list_map, rules


class GuardrailAction(StrEnum):
    """What a breach leads to."""

    WARN = "Warn"
    ROLLBACK = "Rollback"
    PAUSE = "Pause"
    FAIL = "Fail"


class Reference(StrEnum):
    """What a figure can be compared with. Abandoned rows never count, nor does the row that is judged."""

    START = "Start"
    CONFIRMED = "Confirmed"
    BEST = "Best"
    MEDIAN = "Median"


class Side(StrEnum):
    """Of a bound."""

    ABOVE = "Above"
    BELOW = "Below"


class Preset(StrEnum):
    """Guardrails that are known to be useful; `domain.guardrails.presets` says what each is."""

    KL_RUNAWAY = "KLRunaway"
    NON_FINITE = "NonFinite"
    GRADIENT_EXPLOSION = "GradientExplosion"
    REWARD_HACKING = "RewardHacking"
    REWARD_COLLAPSE = "RewardCollapse"
    REWARD_NOISE = "RewardNoise"
    ENTROPY_COLLAPSE = "EntropyCollapse"
    LENGTH_COLLAPSE = "LengthCollapse"
    LENGTH_CLIPPING = "LengthClipping"
    ROLLOUT_MISMATCH = "RolloutMismatch"
    REWARD_FUNCTION_FAILING = "RewardFunctionFailing"
    VALUE_DIVERGENCE = "ValueDivergence"
    SLOW_GENERATION = "SlowGeneration"
    DEVICE_MEMORY = "DeviceMemory"


FINITE = 1e308
"""A bound that every finite figure keeps: `above: 1.0e308` is breached by what is not finite only."""

_ONE_SOURCE = (
    "has(self.metric) != has(self.promql)",
    "set exactly one of metric and promql",
)
_BOUND = (
    (
        "has(self.relativeTo) ? !has(self.above) && !has(self.below) && has(self.ratio) != has(self.by) : "
        "(has(self.above) || has(self.below)) && !has(self.ratio) && !has(self.by)"
    ),
    "set a threshold: above, below or both; or relativeTo with one of ratio and by",
)


class Condition(Model):
    """A bound on one figure. A value that is not finite is out of every bound."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            _ONE_SOURCE,
            _BOUND,
            ("!has(self.ratio) || (self.ratio > 0.0 && self.ratio != 1.0)", "must be above 0 and not 1", ".ratio"),
            ("!has(self.by) || self.by != 0.0", "must not be 0", ".by"),
            ("!has(self.bad) || has(self.relativeTo)", "goes with relativeTo only", ".bad"),
        )
    )
    metric: Annotated[str, Field(min_length=1, max_length=128)] | None = Field(
        default=None, description="A figure (docs/figures.md) or, with a slash, one of verl's own metric keys"
    )
    promql: Text | None = Field(
        default=None,
        description="A query with one value, asked at the time of each step: the resolution is the operator's scrape "
        "interval; no value, several, or NaN is Inconclusive, never a breach. Needs the operator's Prometheus setting",
    )
    above: float | None = Field(default=None, description="Bad when the value is greater")
    below: float | None = Field(default=None, description="Bad when the value is smaller")
    relative_to: Reference | None = Field(
        default=None,
        description="Compare with the run's own past. Start: mean of steps 5 to 15 (without any: the first value "
        "behind them). Confirmed: the value at the row that describes the newest Confirmed checkpoint. Best: best "
        "value so far. Median: median so far. Only rows that led to today's weights count, only finite values, and "
        "never the row itself. While there is no reference the condition does not hold",
    )
    ratio: float | None = Field(
        default=None,
        description="Times the reference; above 1: bad when greater, Best is then the smallest value; below 1: bad "
        "when smaller, Best is the greatest. Against a negative reference it never holds: use by",
    )
    by: float | None = Field(
        default=None,
        description="Plus the reference; positive: bad when greater, Best is then the smallest value; negative: bad "
        "when smaller, Best is the greatest",
    )
    bad: Side | None = Field(
        default=None,
        description="Which side of a relative bound is bad where it is not the one that ratio or by say: Below with "
        "relativeTo Best and by 0.01 is bad where the value does not beat the best by more than that",
    )


class Failing(Model):
    """So many bad ones of the last so many observations."""

    model_config = ConfigDict(
        json_schema_extra=rules(("self.count <= self.of", "count must not exceed of", ".count")),
    )
    count: Annotated[int, Field(ge=1, le=10_000)] = Field(description="Bad observations that make a breach")
    of: Annotated[int, Field(ge=1, le=10_000)] = Field(description="Of the newest so many observations")


class Guardrail(Model):
    """Conditions on figures of the run, judged at every step."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("has(self.preset) || has(self.conditions)", "set preset, or conditions, or both"),
            ("!(has(self.forSteps) && has(self.failing))", "set forSteps or failing, not both", ".failing"),
        )
    )
    name: Name = Field(description="Told in status, events and metrics")
    preset: Preset | None = Field(
        default=None,
        description="A guardrail that is known to be useful (docs/guardrails.md); every other field overrides it",
    )
    conditions: Annotated[list[Condition], Field(min_length=1, max_length=4)] | None = Field(
        default=None,
        description="What must hold together on a row for it to be bad. A row that lacks one of the figures is no "
        "observation. With preset: they replace the preset's conditions on the same metric",
    )
    for_steps: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        default=None, description="Consecutive observations that must be bad; default 1, or the preset's"
    )
    failing: Failing | None = Field(default=None, description="Instead of forSteps: with good ones in between")
    after_step: Whole | None = Field(
        default=None, description="Global step up to which nothing is judged; default 0, or the preset's"
    )
    action: GuardrailAction | None = Field(
        default=None,
        description="Warn: events and condition Healthy. Rollback: back to the last confirmed checkpoint. Pause: save, "
        "stop and give the devices back until a person goes on. Fail: end. Default Warn, or the preset's",
    )
    dry_run: bool = Field(default=False, description="Say what would be done, do nothing")


Guardrails = Annotated[list[Guardrail], Field(max_length=32, json_schema_extra=list_map("name"))]


class OnExhausted(StrEnum):
    """What a breach leads to when no rollback is left."""

    FAIL = "Fail"
    PAUSE = "Pause"
