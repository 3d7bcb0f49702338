"""The fields of a PPOJob as verl 0.9.1's configuration keys.

One table: what is rendered (`render.verl`), what the reference page says, and which field an override of a rendered
key should have used. Keys that the trainer sets itself are in `ppojob_contract.managed` and never here.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ppojob_operator.api.v1alpha1.spec import PPOJobSpec
from ppojob_operator.api.v1alpha1.training import Engine, Estimator, KLControl, KLEstimate, Lora, Strategy
from ppojob_operator.domain import effective

Scalar = bool | int | float | str
Value = Scalar | list[str]
Read = Callable[[PPOJobSpec], Value | None]

_A = "actor_rollout_ref"
_ACTOR, _ROLLOUT, _MODEL = f"{_A}.actor", f"{_A}.rollout", f"{_A}.model"

_ESTIMATORS = {
    Estimator.GAE: "gae",
    Estimator.GRPO: "grpo",
    Estimator.RLOO: "rloo",
    Estimator.REINFORCE_PLUS_PLUS: "reinforce_plus_plus",
}
_ESTIMATES = {
    KLEstimate.KL: "kl",
    KLEstimate.ABS: "abs",
    KLEstimate.MSE: "mse",
    KLEstimate.LOW_VARIANCE: "low_var_kl",
}
_CONTROLS = {KLControl.FIXED: "fixed", KLControl.ADAPTIVE: "adaptive"}
_STRATEGIES = {Strategy.FSDP: "fsdp", Strategy.FSDP2: "fsdp2"}
_ENGINES = {Engine.VLLM: "vllm", Engine.SGLANG: "sglang", Engine.TRANSFORMERS: "hf_cpu"}


@dataclass(frozen=True, slots=True)
class Key:
    """One of verl's keys."""

    key: str
    field: str
    """Path in the spec, as a user writes it."""
    read: Read
    """Its value; None where this configuration leaves verl's default."""


def _critic(read: Read) -> Read:
    return lambda spec: read(spec) if effective.has_critic(spec) else None


def _reference(read: Read) -> Read:
    return lambda spec: read(spec) if effective.has_reference(spec) else None


def _lora(read: Callable[[Lora], Value]) -> Read:
    return lambda spec: read(spec.model.actor.lora) if spec.model.actor.lora is not None else None


def _loss(read: Read) -> Read:
    return lambda spec: read(spec) if effective.kl_in_loss(spec) else 0.0 if effective.kl_monitored(spec) else None


def _reward(read: Read) -> Read:
    return lambda spec: read(spec) if effective.kl_in_reward(spec) else None


def _adaptive(read: Read) -> Read:
    return _reward(lambda spec: read(spec) if spec.algorithm.kl.control is KLControl.ADAPTIVE else None)


def _lora_targets(lora: Lora) -> Value:
    """All of them are a word: as the item of a list, peft would look for a layer of that name."""
    return list(lora.target_modules) or "all-linear"


def _both(suffixes: tuple[str, str], field: str, read: Read) -> tuple[Key, Key]:
    """The same field for actor and critic."""
    actor, critic = suffixes
    return Key(f"{_ACTOR}.{actor}", field, read), Key(f"critic.{critic}", field, _critic(read))


MODEL = (
    Key(f"{_MODEL}.path", "model.actor.path", lambda s: s.model.actor.path),
    Key(f"{_MODEL}.lora_rank", "model.actor.lora.rank", _lora(lambda lora: lora.rank)),
    Key(f"{_MODEL}.lora_alpha", "model.actor.lora.alpha", _lora(lambda lora: lora.alpha)),
    Key(f"{_MODEL}.target_modules", "model.actor.lora.targetModules", _lora(_lora_targets)),
    Key("critic.model.path", "model.critic.path", _critic(effective.critic_path)),
    Key(f"{_MODEL}.trust_remote_code", "model.trustRemoteCode", lambda s: s.model.trust_remote_code),
    Key("critic.model.trust_remote_code", "model.trustRemoteCode", _critic(lambda s: s.model.trust_remote_code)),
    Key("data.trust_remote_code", "model.trustRemoteCode", lambda s: s.model.trust_remote_code),
)

DATA = (
    Key("data.train_files", "data.train", lambda s: list(s.data.train)),
    Key("data.val_files", "data.validation", lambda s: list(s.data.validation)),
    Key("data.max_prompt_length", "data.maxPromptLength", lambda s: s.data.max_prompt_length),
    Key("data.max_response_length", "data.maxResponseLength", lambda s: s.data.max_response_length),
    Key("data.seed", "data.seed", lambda s: s.data.seed),
    Key("data.shuffle", "data.shuffle", lambda s: s.data.shuffle),
    Key("data.val_max_samples", "data.validationMaxRows", lambda s: s.data.validation_max_rows),
)

ALGORITHM = (
    Key("algorithm.adv_estimator", "algorithm.estimator", lambda s: _ESTIMATORS[s.algorithm.estimator]),
    Key("algorithm.gamma", "algorithm.gamma", lambda s: s.algorithm.gamma),
    Key("algorithm.lam", "algorithm.lambda", lambda s: s.algorithm.lambda_),
    Key("algorithm.use_kl_in_reward", "algorithm.kl.placement", effective.kl_in_reward),
    Key(
        f"{_ACTOR}.use_kl_loss",
        "algorithm.kl.placement",
        lambda s: effective.kl_in_loss(s) or effective.kl_monitored(s),
    ),
    Key(f"{_ACTOR}.kl_loss_coef", "algorithm.kl.coefficient", _loss(lambda s: s.algorithm.kl.coefficient)),
    Key(
        f"{_ACTOR}.kl_loss_type",
        "algorithm.kl.estimate",
        lambda s: _ESTIMATES[effective.loss_estimate(s)] if effective.kl_in_loss(s) else None,
    ),
    Key("algorithm.kl_penalty", "algorithm.kl.estimate", _reward(lambda s: _ESTIMATES[effective.reward_estimate(s)])),
    Key("algorithm.kl_ctrl.type", "algorithm.kl.control", _reward(lambda s: _CONTROLS[s.algorithm.kl.control])),
    Key("algorithm.kl_ctrl.kl_coef", "algorithm.kl.coefficient", _reward(lambda s: s.algorithm.kl.coefficient)),
    Key("algorithm.kl_ctrl.target_kl", "algorithm.kl.target", _adaptive(effective.kl_target)),
    Key("algorithm.kl_ctrl.horizon", "algorithm.kl.horizon", _adaptive(lambda s: s.algorithm.kl.horizon)),
    Key(f"{_ACTOR}.clip_ratio", "algorithm.clipRatio", lambda s: s.algorithm.clip_ratio),
    Key(f"{_ACTOR}.clip_ratio_low", "algorithm.clipRatio", lambda s: s.algorithm.clip_ratio),
    Key(
        f"{_ACTOR}.clip_ratio_high",
        "algorithm.clipRatioHigh",
        lambda s: s.algorithm.clip_ratio_high or s.algorithm.clip_ratio,
    ),
    Key("critic.cliprange_value", "algorithm.valueClip", _critic(lambda s: s.algorithm.value_clip)),
    Key(f"{_ACTOR}.entropy_coeff", "algorithm.entropyCoefficient", lambda s: s.algorithm.entropy_coefficient),
)

TRAINING = (
    Key("data.train_batch_size", "training.batchSize", lambda s: s.training.batch_size),
    *_both(
        ("ppo_mini_batch_size", "ppo_mini_batch_size"), "training.miniBatchSize", lambda s: s.training.mini_batch_size
    ),
    *_both(
        ("ppo_micro_batch_size_per_gpu", "ppo_micro_batch_size_per_gpu"),
        "training.microBatchSizePerDevice",
        lambda s: s.training.micro_batch_size_per_device,
    ),
    Key(
        f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu",
        "training.logProbMicroBatchSizePerDevice",
        lambda s: s.training.log_prob_micro_batch_size_per_device,
    ),
    Key(
        f"{_A}.ref.log_prob_micro_batch_size_per_gpu",
        "training.referenceMicroBatchSizePerDevice",
        _reference(lambda s: s.training.reference_micro_batch_size_per_device),
    ),
    *_both(("ppo_epochs", "ppo_epochs"), "training.ppoEpochs", lambda s: s.training.ppo_epochs),
    Key(f"{_ACTOR}.optim.lr", "training.learningRate", lambda s: s.training.learning_rate),
    Key("critic.optim.lr", "training.criticLearningRate", _critic(lambda s: s.training.critic_learning_rate)),
    *_both(
        ("optim.lr_warmup_steps", "optim.lr_warmup_steps"),
        "training.learningRateWarmupSteps",
        lambda s: s.training.learning_rate_warmup_steps,
    ),
    Key("trainer.critic_warmup", "training.criticWarmupSteps", lambda s: s.training.critic_warmup_steps),
    *_both(("optim.weight_decay", "optim.weight_decay"), "training.weightDecay", lambda s: s.training.weight_decay),
    *_both(("optim.clip_grad", "optim.clip_grad"), "training.gradientClip", lambda s: s.training.gradient_clip),
    Key(f"{_MODEL}.enable_gradient_checkpointing", "training.gradientCheckpointing", effective.gradient_checkpointing),
    Key(
        "critic.model.enable_gradient_checkpointing",
        "training.gradientCheckpointing",
        _critic(effective.gradient_checkpointing),
    ),
    *_both(("strategy", "strategy"), "training.strategy", lambda s: _STRATEGIES[s.training.strategy]),
    Key(f"{_A}.ref.strategy", "training.strategy", _reference(lambda s: _STRATEGIES[s.training.strategy])),
    *_both(
        ("fsdp_config.param_offload", "fsdp.param_offload"),
        "training.parameterOffload",
        lambda s: s.training.parameter_offload,
    ),
    Key(
        f"{_A}.ref.fsdp_config.param_offload",
        "training.parameterOffload",
        _reference(lambda s: s.training.parameter_offload),
    ),
    *_both(
        ("fsdp_config.optimizer_offload", "fsdp.optimizer_offload"),
        "training.optimizerOffload",
        lambda s: s.training.optimizer_offload,
    ),
    Key("trainer.save_freq", "checkpoints.everySteps", lambda s: s.checkpoints.every_steps),
    Key("trainer.test_freq", "training.validateEverySteps", lambda s: s.training.validate_every_steps or -1),
    Key("trainer.val_before_train", "training.validateBeforeStart", lambda s: s.training.validate_before_start),
)

ROLLOUT = (
    Key(f"{_ROLLOUT}.name", "rollout.engine", lambda s: _ENGINES[effective.engine(s)]),
    Key(f"{_ROLLOUT}.n", "rollout.samplesPerPrompt", lambda s: s.rollout.samples_per_prompt),
    Key(f"{_ROLLOUT}.temperature", "rollout.temperature", lambda s: s.rollout.temperature),
    Key(f"{_ROLLOUT}.top_p", "rollout.topP", lambda s: s.rollout.top_p),
    Key(
        f"{_ROLLOUT}.tensor_model_parallel_size", "rollout.tensorParallelSize", lambda s: s.rollout.tensor_parallel_size
    ),
    Key(f"{_ROLLOUT}.gpu_memory_utilization", "rollout.memoryFraction", lambda s: s.rollout.memory_fraction),
    Key(f"{_ROLLOUT}.max_num_seqs", "rollout.maxSequences", lambda s: s.rollout.max_sequences),
    Key(f"{_ROLLOUT}.max_num_batched_tokens", "rollout.maxBatchedTokens", lambda s: s.rollout.max_batched_tokens),
    Key(f"{_ROLLOUT}.enforce_eager", "rollout.enforceEager", lambda s: s.rollout.enforce_eager),
)

KEYS = (*MODEL, *DATA, *ALGORITHM, *TRAINING, *ROLLOUT)


def field_of(key: str) -> str | None:
    """The spec's field that stands for one of verl's keys, or for what is below or above it; None for a free key."""
    for known in KEYS:
        if key == known.key or key.startswith(f"{known.key}.") or known.key.startswith(f"{key}."):
            return known.field
    return None
