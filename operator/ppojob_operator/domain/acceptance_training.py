"""Training that verl would refuse or that this version cannot do: arithmetic, engines, verl's own keys."""

from collections.abc import Iterator

from ppojob_contract.data_plan import DataOrder
from ppojob_contract.managed import managed_reason
from ppojob_operator.api.v1alpha1.spec import Device, Override, PPOJobSpec
from ppojob_operator.api.v1alpha1.training import Engine, KLControl, Strategy
from ppojob_operator.domain import effective, verl_keys
from ppojob_operator.domain.acceptance_reward import reward_problems
from ppojob_operator.domain.observation import Problem

_DYNAMIC_BATCH = "actor_rollout_ref.actor.use_dynamic_bsz"

_OFFLINE = "HF_HUB_OFFLINE"

MAX_OVERRIDE_CHARACTERS = 65_536
"""All overrides together: they travel in one environment variable, which Linux limits to 128 KiB."""


def training_problems(spec: PPOJobSpec) -> Iterator[Problem]:
    """Of model, data, reward, algorithm, training, rollout and `trainer.overrides`."""
    yield from _hub_names(spec)
    yield from _algorithm(spec)
    yield from _batches(spec)
    yield from _engine(spec)
    yield from _data(spec)
    yield from reward_problems(spec)
    yield from _overrides(spec)
    yield from _interpolations(spec)


def _hub_names(spec: PPOJobSpec) -> Iterator[Problem]:
    """The image for CPU asks no hub, and a start would find that out after minutes. What another one does, or a
    podTemplate sets, is not known.
    """
    trainer = spec.trainer
    set_by_user = trainer.image is not None or spec.cluster.pod_template or _OFFLINE in {e.name for e in trainer.env}
    if spec.cluster.device is not Device.CPU or set_by_user:
        return
    for field, path in _models(spec):
        if not path.startswith("/"):
            message = (
                "is a hub name, and the image for CPU asks no hub: name a folder of the image or of the claim, or "
            )
            yield Problem(field=field, message=message + f'set {_OFFLINE} to "0" in spec.trainer.env')


def _models(spec: PPOJobSpec) -> Iterator[tuple[str, str]]:
    """Every model that the spec names, by its field."""
    yield "spec.model.actor.path", spec.model.actor.path
    if spec.model.critic is not None:
        yield "spec.model.critic.path", spec.model.critic.path
    for term in spec.reward.terms:
        if term.model is not None:
            yield f"spec.reward.terms[{term.name}].model.path", term.model.path
        if term.training is not None:
            yield f"spec.reward.terms[{term.name}].training.model", term.training.model
    evaluation = spec.evaluation
    if evaluation is not None and evaluation.judge.reward_model is not None:
        yield "spec.evaluation.judge.rewardModel.path", evaluation.judge.reward_model.path
    if evaluation is not None and evaluation.baseline.path is not None:
        yield "spec.evaluation.baseline.path", evaluation.baseline.path


def _algorithm(spec: PPOJobSpec) -> Iterator[Problem]:
    if spec.model.critic is not None and not effective.has_critic(spec):
        yield Problem(
            field="spec.model.critic",
            message="only estimator GAE has a critic: remove it, or set spec.algorithm.estimator to GAE",
        )
    if spec.algorithm.estimator.grouped and spec.rollout.samples_per_prompt < 2:
        yield Problem(
            field="spec.rollout.samplesPerPrompt",
            message=f"estimator {spec.algorithm.estimator} compares the samples of a prompt: must be 2 or more",
        )
    kl = spec.algorithm.kl
    if kl.control is KLControl.ADAPTIVE and not effective.kl_in_reward(spec):
        yield Problem(field="spec.algorithm.kl.control", message="Adaptive needs kl.placement Reward or Both")
    if kl.control is not KLControl.ADAPTIVE and kl.target is not None:
        yield Problem(field="spec.algorithm.kl.target", message="goes with kl.control Adaptive only")
    if spec.algorithm.clip_ratio_high is not None and spec.algorithm.clip_ratio_high < spec.algorithm.clip_ratio:
        yield Problem(field="spec.algorithm.clipRatioHigh", message="must not be smaller than clipRatio")


def _batches(spec: PPOJobSpec) -> Iterator[Problem]:
    """As verl 0.9.1 checks them: `utils/config.py` validate_config, `workers/engine_workers.py` train_mini_batch,
    `workers/engine/utils.py` prepare_micro_batches.
    """
    training, samples, devices = spec.training, spec.rollout.samples_per_prompt, effective.devices(spec)
    if training.batch_size % training.mini_batch_size:
        message = f"must divide batchSize: {training.batch_size} is no multiple of {training.mini_batch_size}"
        yield Problem(field="spec.training.miniBatchSize", message=message)
    batch, mini = training.batch_size * samples, training.mini_batch_size * samples
    for name, size in (("batchSize", batch), ("miniBatchSize", mini)):
        if size % devices:
            message = f"its {size} samples do not divide by the {devices} devices of spec.cluster"
            yield Problem(field=f"spec.training.{name}", message=message)
            return
    if any(item.key == _DYNAMIC_BATCH and item.value is True for item in spec.trainer.overrides):
        return  # verl packs by tokens then
    micro = {
        "microBatchSizePerDevice": (training.micro_batch_size_per_device, mini // devices, "miniBatchSize"),
        "logProbMicroBatchSizePerDevice": (
            training.log_prob_micro_batch_size_per_device,
            batch // devices,
            "batchSize",
        ),
    }
    if effective.has_reference(spec):
        size = training.reference_micro_batch_size_per_device
        micro["referenceMicroBatchSizePerDevice"] = (size, batch // devices, "batchSize")
    for name, (size, samples_per_device, of) in micro.items():
        if samples_per_device % size:
            message = f"must divide the {samples_per_device} samples that {of} gives each device"
            yield Problem(field=f"spec.training.{name}", message=message)


def _engine(spec: PPOJobSpec) -> Iterator[Problem]:
    engine, devices, parallel = effective.engine(spec), effective.devices(spec), spec.rollout.tensor_parallel_size
    on_cpu = spec.cluster.device is Device.CPU
    if on_cpu and engine is not Engine.TRANSFORMERS and spec.trainer.image is None:
        message = (
            f"the CPU image has no {engine}: leave it out (Transformers), or set spec.trainer.image to one that has"
        )
        yield Problem(field="spec.rollout.engine", message=message)
    if not on_cpu and engine is Engine.TRANSFORMERS:
        yield Problem(field="spec.rollout.engine", message="Transformers generates on spec.cluster.device CPU only")
    if on_cpu and spec.training.strategy is Strategy.FSDP:
        yield Problem(field="spec.training.strategy", message="FSDP needs accelerators; on CPU use FSDP2")
    if engine is Engine.TRANSFORMERS and parallel > 1:
        yield Problem(field="spec.rollout.tensorParallelSize", message="engine Transformers has no tensor parallelism")
    elif devices % parallel:
        message = f"must divide the {devices} devices of spec.cluster"
        yield Problem(field="spec.rollout.tensorParallelSize", message=message)


def _data(spec: PPOJobSpec) -> Iterator[Problem]:
    for name, paths in (("train", spec.data.train), ("validation", spec.data.validation)):
        for index, path in enumerate(paths):
            if not path.startswith("/"):
                message = "must be an absolute path in the trainer's pods (the claim is at /ppojob/storage)"
                yield Problem(field=f"spec.data.{name}[{index}]", message=message)
    if spec.rollback.data is DataOrder.RESHUFFLE and not spec.data.shuffle:
        message = "Reshuffle needs spec.data.shuffle: true; without it there is one order only"
        yield Problem(field="spec.rollback.data", message=message)


def _overrides(spec: PPOJobSpec) -> Iterator[Problem]:
    for item in spec.trainer.overrides:
        path = f"spec.trainer.overrides[{item.key}]"
        if reason := managed_reason(item.key):
            yield Problem(field=path, message=f"is managed by the operator: {reason}")
        elif field := verl_keys.field_of(item.key):
            yield Problem(field=path, message=f"use spec.{field} instead")
        if isinstance(item.value, str) and "${" in item.value:
            yield Problem(field=f"{path}.value", message="an interpolation (${...}) would be resolved in the trainer")
    total = sum(_length(item) for item in spec.trainer.overrides)
    if total > MAX_OVERRIDE_CHARACTERS:
        message = f"have {total} characters in all, more than {MAX_OVERRIDE_CHARACTERS}"
        yield Problem(field="spec.trainer.overrides", message=message)


def _length(item: Override) -> int:
    return len(item.key) + len(str(item.value).encode())


def _interpolations(spec: PPOJobSpec) -> Iterator[Problem]:
    """Of paths and other text in fields that become verl's keys."""
    for key in verl_keys.KEYS:
        value = key.read(spec)
        texts = value if isinstance(value, list) else [value]
        if any(isinstance(text, str) and "${" in text for text in texts):
            yield Problem(field=f"spec.{key.field}", message="must not contain ${")
