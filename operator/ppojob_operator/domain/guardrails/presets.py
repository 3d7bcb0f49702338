"""Guardrails that are known to be useful; docs/presets.md shows the table.

A user overrides what does not fit; what a preset means does not change with an operator's version without a line in
the changelog.
"""

from dataclasses import dataclass
from typing import Final

from ppojob_operator.api.v1alpha1.guardrails import FINITE, Condition, GuardrailAction, Preset, Reference, Side

_WARN, _ROLLBACK, _PAUSE = GuardrailAction.WARN, GuardrailAction.ROLLBACK, GuardrailAction.PAUSE


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One guardrail of a preset."""

    conditions: tuple[Condition, ...]
    count: int = 1
    of: int = 1
    after_step: int = 0
    action: GuardrailAction = _WARN
    suffix: str = ""
    """Tells the rules of one preset apart, behind the guardrail's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetInfo:
    """A preset and what a person should know of it."""

    rules: tuple[Rule, ...]
    meaning: str
    advice: str


def _on(metric: str, *, above: float | None = None, below: float | None = None) -> Condition:
    return Condition(metric=metric, above=above, below=below)


def _times(metric: str, ratio: float, of: Reference) -> Condition:
    return Condition(metric=metric, relative_to=of, ratio=ratio)


def _plus(metric: str, by: float, to: Reference, bad: Side | None = None) -> Condition:
    return Condition(metric=metric, relative_to=to, by=by, bad=bad)


PRESETS: Final = {
    Preset.KL_RUNAWAY: PresetInfo(
        rules=(Rule(conditions=(_on("kl", above=0.02),), count=3, of=3),),
        meaning="the policy leaves its reference: text that the reward likes and nobody else",
        advice="look at samples; to act on it: action Rollback with kl above 0.2 after step 15, or with two "
        "conditions, 5 x Confirmed and above 0.05; a lower learning rate or a larger KL coefficient",
    ),
    Preset.NON_FINITE: PresetInfo(
        rules=(
            Rule(conditions=(_on("gradNorm", above=FINITE),), suffix="gradient"),
            Rule(conditions=(_on("gradNorm", above=FINITE),), count=3, of=10, action=_ROLLBACK, suffix="gradients"),
            Rule(conditions=(_on("rewardMean", above=FINITE),), action=_PAUSE, suffix="reward"),
        ),
        meaning="NaN or infinity. verl skips an update whose gradient is not finite, so once does no harm; again and "
        "again, the run stands still. No rollback mends a reward that is not finite",
        advice="gradients: lower learning rate, bf16, gradient clipping; reward: mend the reward function",
    ),
    Preset.GRADIENT_EXPLOSION: PresetInfo(
        rules=(Rule(conditions=(_on("gradNorm", above=10.0),), count=3, of=5, after_step=5),),
        meaning="updates that want to go much further than clipping lets them",
        advice="lower learning rate, more warm-up; with action Rollback the weights before it come back",
    ),
    Preset.REWARD_HACKING: PresetInfo(
        rules=(
            Rule(
                conditions=(
                    _on("kl", above=0.1),
                    _plus("rewardMean", 0.05, Reference.MEDIAN),
                    _plus("validationReward", 0.001, Reference.BEST, Side.BELOW),
                ),
                count=4,
                of=5,
                action=_PAUSE,
            ),
        ),
        meaning="the training reward is rising, validations bring no new best, and the policy is far from its "
        "reference: it found a way to please the reward. Four validations of five, so it takes as long as those do",
        advice="read samples of high reward; mend the reward; go on from a checkpoint before",
    ),
    Preset.REWARD_COLLAPSE: PresetInfo(
        rules=(Rule(conditions=(_times("rewardMean", 0.5, Reference.BEST),), count=10, of=10),),
        meaning="the reward has lost half of its best value. Below 0 it is not judged: where rewards "
        "can be negative give a condition with by instead of ratio",
        advice="a candidate for Rollback with a lower learning rate",
    ),
    Preset.REWARD_NOISE: PresetInfo(
        rules=(Rule(conditions=(_on("rewardStd", above=0.5),), count=3, of=3, action=_PAUSE),),
        meaning="rewards scatter more than a policy can learn from. (Those of a rule, 0 or 1, never exceed 0.5)",
        advice="clean the data or the reward model; for rewards of another scale set your own threshold",
    ),
    Preset.ENTROPY_COLLAPSE: PresetInfo(
        rules=(Rule(conditions=(_times("entropy", 0.2, Reference.START),), count=10, of=10),),
        meaning="the policy says nearly the same every time: nothing is explored any more",
        advice="entropyCoefficient, clipRatioHigh 0.28, a higher temperature",
    ),
    Preset.LENGTH_COLLAPSE: PresetInfo(
        rules=(Rule(conditions=(_times("responseLengthMean", 0.3, Reference.START),), count=5, of=5),),
        meaning="responses shrink to a fraction: short ones please the reward, or end at once",
        advice="read samples; a reward for length or format is often the cause",
    ),
    Preset.LENGTH_CLIPPING: PresetInfo(
        rules=(Rule(conditions=(_on("responseClippedFraction", above=0.5),), count=5, of=5),),
        meaning="more than half of the responses are cut at maxResponseLength, so their reward is about a fragment",
        advice="raise data.maxResponseLength, or shape the reward of long ones",
    ),
    Preset.ROLLOUT_MISMATCH: PresetInfo(
        rules=(
            Rule(conditions=(_on("rolloutCorrelation", below=0.98),), count=5, of=5, suffix="correlation"),
            Rule(conditions=(_on("rolloutKL", above=0.01),), count=5, of=5, suffix="kl"),
        ),
        meaning="the engine that generates computes other probabilities than the trainer: a broken weight push, or "
        "kernels too different",
        advice="look at the first step: a broken push heals after one; else the engine's precision",
    ),
    Preset.REWARD_FUNCTION_FAILING: PresetInfo(
        rules=(
            Rule(conditions=(_on("failedPromptFraction", above=0.0),), suffix="some"),
            Rule(
                conditions=(_on("failedPromptFraction", above=0.05),), count=3, of=3, action=_PAUSE, suffix="many"
            ),
        ),
        meaning="generation or the reward function failed on samples; verl scores them 0 and goes on, so a broken "
        "function looks like a bad policy",
        advice="the driver's log has the first traceback; mend the function, then go on",
    ),
    Preset.VALUE_DIVERGENCE: PresetInfo(
        rules=(Rule(conditions=(_times("valueLoss", 3.0, Reference.MEDIAN),), after_step=50),),
        meaning="the critic lost track of the returns; advantages are noise until it is back",
        advice="lower criticLearningRate, more criticWarmupSteps",
    ),
    Preset.SLOW_GENERATION: PresetInfo(
        rules=(Rule(conditions=(_on("generationSeconds", above=20.0),), count=3, of=3, after_step=3),),
        meaning="steps wait for their samples",
        advice="the engine's memory share and batch; what else runs on the node",
    ),
    Preset.DEVICE_MEMORY: PresetInfo(
        rules=(Rule(conditions=(_on("deviceMemoryFraction", above=0.8),)),),
        meaning="the trainer is close to running out of device memory",
        advice="smaller micro-batches, offloading, a smaller memory share for the engine",
    ),
}  # fmt: skip

DEFAULTS: Final = (Preset.NON_FINITE, Preset.REWARD_FUNCTION_FAILING)
"""What every job has unless it lists or declines it."""
