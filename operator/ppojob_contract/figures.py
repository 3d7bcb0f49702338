"""The figures of a training step: what a guardrail's `metric` can name, and where each comes from.

One table for the trainer (which computes them), the operator (which refuses what a configuration can never feed) and
the documentation. Sources: verl 0.9.1 `trainer/ppo/metric_utils.py`, `workers/utils/losses.py`; definitions that verl
does not log are computed by `ppojob_trainer.figures`.
"""

from dataclasses import dataclass
from enum import StrEnum


class Need(StrEnum):
    """What a configuration must have for a figure to exist."""

    REFERENCE = "Reference"
    CRITIC = "Critic"
    GROUPS = "Groups"
    VALIDATION = "Validation"
    DEVICE_MEMORY = "DeviceMemory"


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    help: str
    verl_key: str | None = None
    """verl's own key where the figure is simply that; None where the trainer computes it."""
    needs: tuple[Need, ...] = ()


def _memory(role: str, *needs: Need) -> tuple[Figure, Figure]:
    meaning = f"device memory of the trainer's process while the {role} is at work, its peak of this step: "
    needs = (Need.DEVICE_MEMORY, *needs)
    return (
        Figure(f"{role}MemoryAllocatedBytes", meaning + "in tensors", needs=needs),
        Figure(f"{role}MemoryReservedBytes", meaning + "taken from the device", needs=needs),
    )


_ALL = (
    Figure(
        "kl",
        "KL of the policy to the reference before the update: mean over response tokens of the k3 estimate "
        "(Schulman, 'Approximating KL Divergence') between old and reference log-probabilities",
        needs=(Need.REFERENCE,),
    ),
    Figure("updateKL", "KL between the old and the updated policy inside one step", "actor/ppo_kl"),
    Figure("rewardMean", "mean reward of the step's samples, before any KL penalty", "critic/score/mean"),
    Figure("rewardStd", "population standard deviation of the same rewards"),
    Figure("rewardMin", "smallest of the same rewards", "critic/score/min"),
    Figure("rewardMax", "largest of the same rewards", "critic/score/max"),
    Figure("rewardGroupStd", "mean over prompts of the rewards' standard deviation in the group", needs=(Need.GROUPS,)),
    Figure("zeroVarianceGroupFraction", "share of prompts whose samples all got the same reward", needs=(Need.GROUPS,)),
    Figure("gradNorm", "actor's gradient norm before clipping, mean over mini-batches", "actor/grad_norm"),
    Figure("criticGradNorm", "critic's gradient norm before clipping", "critic/grad_norm", needs=(Need.CRITIC,)),
    Figure("entropy", "mean entropy of the policy's token distribution, nats", "actor/entropy"),
    Figure("policyLoss", "PPO's clipped policy loss", "actor/pg_loss"),
    Figure("valueLoss", "critic's loss", "critic/vf_loss", needs=(Need.CRITIC,)),
    Figure("clipFraction", "share of tokens whose probability ratio was clipped", "actor/pg_clipfrac"),
    Figure("valueClipFraction", "share of tokens whose value was clipped", "critic/vf_clipfrac", needs=(Need.CRITIC,)),
    Figure("learningRate", "actor's learning rate in this step", "actor/lr"),
    Figure("criticLearningRate", "critic's learning rate in this step", "critic/lr", needs=(Need.CRITIC,)),
    Figure("klCoefficient", "weight of the KL term in force", needs=(Need.REFERENCE,)),
    Figure("responseLengthMean", "mean response length, tokens", "response_length/mean"),
    Figure("responseLengthP10", "length that a tenth of the responses stays below, tokens"),
    Figure("responseLengthMax", "longest response, tokens", "response_length/max"),
    Figure("responseClippedFraction", "share of responses that reached maxResponseLength"),
    Figure("failedPromptFraction", "share of the step's samples whose generation or reward function failed"),
    Figure(
        "rolloutCorrelation",
        "Pearson correlation of the rollout's and the trainer's token probabilities; below 0.98 the weight push is "
        "broken",
        "training/rollout_actor_probs_pearson_corr",
    ),
    Figure("rolloutKL", "KL between the rollout's and the trainer's token distribution", "rollout_corr/kl"),
    Figure("tokensPerSecond", "prompt and response tokens a second, all devices together"),
    Figure("tokensPerSecondPerDevice", "prompt and response tokens a second and device", "perf/throughput"),
    Figure("stepSeconds", "duration of the step", "timing_s/step"),
    Figure("generationSeconds", "duration of the step's generation", "timing_s/gen"),
    Figure(
        "deviceMemoryFraction",
        "trainer's peak reserved device memory of this step, as a share of all",
        needs=(Need.DEVICE_MEMORY,),
    ),
    Figure("deviceMemoryTotalBytes", "memory of a device", needs=(Need.DEVICE_MEMORY,)),
    *_memory("actor"),
    *_memory("reference", Need.REFERENCE),
    *_memory("critic", Need.CRITIC),
    Figure(
        "rolloutMemoryReservedBytes",
        "device memory that the trainer's process does not hold once the engine has its weights: the engine's",
        needs=(Need.DEVICE_MEMORY,),
    ),
    Figure(
        "validationReward",
        "mean over data sources of the validation reward, at validation steps only",
        needs=(Need.VALIDATION,),
    ),
)

FIGURES: dict[str, Figure] = {figure.name: figure for figure in _ALL}

ALWAYS_READ = ("kl", "rewardMean", "rewardStd", "gradNorm", "tokensPerSecond", "stepSeconds", "responseLengthMean")
"""What the operator reads of every row beside the guardrails' metrics: status, confirmation, time estimate."""
