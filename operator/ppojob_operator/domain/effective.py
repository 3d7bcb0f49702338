"""What a spec means where it leaves a choice open: defaults that depend on other fields, and what follows from them."""

from ppojob_operator.api.v1alpha1.reward_scoring import RewardEngine, RewardScoring
from ppojob_operator.api.v1alpha1.spec import DEFAULT_KL_TARGET, Device, PPOJobSpec
from ppojob_operator.api.v1alpha1.training import Engine, Estimator, KLEstimate, KLPlacement

_IN_LOSS = {KLPlacement.LOSS, KLPlacement.BOTH}
_IN_REWARD = {KLPlacement.REWARD, KLPlacement.BOTH}

RESOURCE_NAMES = {Device.NVIDIA_GPU: "nvidia.com/gpu", Device.ASCEND_NPU: "huawei.com/Ascend910"}


def devices(spec: PPOJobSpec) -> int:
    """Training processes in all (verl's world size)."""
    return spec.cluster.nodes * spec.cluster.devices_per_node


def resource_name(spec: PPOJobSpec) -> str | None:
    """Extended resource of the device; None on CPU."""
    return spec.cluster.resource_name or RESOURCE_NAMES.get(spec.cluster.device)


def kl_placement(spec: PPOJobSpec) -> KLPlacement:
    placement = spec.algorithm.kl.placement
    if placement is not None:
        return placement
    return KLPlacement.LOSS if spec.algorithm.estimator.grouped else KLPlacement.REWARD


def kl_in_reward(spec: PPOJobSpec) -> bool:
    return kl_placement(spec) in _IN_REWARD


def kl_in_loss(spec: PPOJobSpec) -> bool:
    return kl_placement(spec) in _IN_LOSS


def kl_monitored(spec: PPOJobSpec) -> bool:
    """The reference is there for the figure `kl` only: a KL loss with coefficient 0."""
    return kl_placement(spec) is KLPlacement.NONE and spec.algorithm.kl.monitor


def loss_estimate(spec: PPOJobSpec) -> KLEstimate:
    return spec.algorithm.kl.estimate or KLEstimate.LOW_VARIANCE


def reward_estimate(spec: PPOJobSpec) -> KLEstimate:
    """k1 is unbiased as a reward; its gradient as a loss would be zero in expectation."""
    return spec.algorithm.kl.estimate or KLEstimate.KL


def kl_target(spec: PPOJobSpec) -> float:
    return spec.algorithm.kl.target or DEFAULT_KL_TARGET


def has_reference(spec: PPOJobSpec) -> bool:
    """Whether verl makes a reference model (it does so for a KL term only)."""
    return kl_in_loss(spec) or kl_in_reward(spec) or kl_monitored(spec)


def has_critic(spec: PPOJobSpec) -> bool:
    return spec.algorithm.estimator is Estimator.GAE


def critic_path(spec: PPOJobSpec) -> str:
    return spec.model.critic.path if spec.model.critic is not None else spec.model.actor.path


def engine(spec: PPOJobSpec) -> Engine:
    default = Engine.TRANSFORMERS if spec.cluster.device is Device.CPU else Engine.VLLM
    return spec.rollout.engine or default


def reward_engine(scoring: RewardScoring, spec: PPOJobSpec) -> RewardEngine:
    """That of the rollout, unless the term says otherwise."""
    return scoring.engine or RewardEngine(engine(spec).value)


def gradient_checkpointing(spec: PPOJobSpec) -> bool:
    chosen = spec.training.gradient_checkpointing
    return chosen if chosen is not None else spec.cluster.device is not Device.CPU
