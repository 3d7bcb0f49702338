# mypy: disable-error-code="import, misc, no-untyped-call, untyped-decorator, attr-defined, union-attr, arg-type"
"""verl's workers with calls of ours: set parameters after a load, and measure device memory.

Importing this module also registers what worker processes need of the plugin; it is imported there because Ray
unpickles the worker classes by name.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from verl.plugin.platform import get_platform
from verl.single_controller.base.decorator import Dispatch, register
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from ppojob_contract.parameters import Parameter
from ppojob_trainer.device_memory import DeviceMemory
from ppojob_trainer.plugin import engines
from ppojob_trainer.plugin.registration import register_rollout

register_rollout()
if get_platform().device_name == "cpu":
    engines.use_gloo_alone()

_LOSS_FIELDS = {
    Parameter.KL_COEFFICIENT: ("kl_loss_coef",),
    Parameter.ENTROPY_COEFFICIENT: ("entropy_coeff",),
    Parameter.CLIP_RATIO: ("clip_ratio", "clip_ratio_low", "clip_ratio_high"),
}
"""Fields of verl's ActorConfig that `ppo_loss` (verl `workers/utils/losses.py`) reads at each call."""


def set_learning_rate(worker: TrainingWorker, rate: float) -> None:
    """Sets the base of the schedule and keeps the place in it: the rate in force is base times shape(place)."""
    optimizer, scheduler = worker.engine.optimizer, worker.engine.lr_scheduler
    scheduler.base_lrs = [rate for _ in scheduler.base_lrs]
    for group, shape in zip(optimizer.param_groups, scheduler.lr_lambdas, strict=True):
        group["initial_lr"] = rate
        group["lr"] = rate * shape(scheduler.last_epoch)
    scheduler._last_lr = [group["lr"] for group in optimizer.param_groups]  # noqa: SLF001 - what get_last_lr returns


def set_loss_parameters(worker: TrainingWorker, settings: Mapping[str, float]) -> None:
    """Changes the (frozen) configuration that the worker's loss function is bound to; what is not set is as it was
    when the worker was made.
    """
    config = worker.loss_fn.keywords["config"]
    fields = [(name, parameter) for parameter, names in _LOSS_FIELDS.items() for name in names]
    if not hasattr(worker, "configured_loss"):
        worker.configured_loss = {name: getattr(config, name) for name, _ in fields}
    for name, parameter in fields:
        object.__setattr__(config, name, settings.get(parameter, worker.configured_loss[name]))


@contextmanager
def weights_alone(worker: TrainingWorker) -> Iterator[None]:
    """Inside, the worker loads no optimizer, schedule or random state (verl `utils/checkpoint`)."""
    manager = worker.engine.checkpoint_manager
    everything, manager.checkpoint_load_contents = manager.checkpoint_load_contents, ["model"]
    try:
        yield
    finally:
        manager.checkpoint_load_contents = everything


_MEMORY = None if get_platform().device_name == "cpu" else DeviceMemory(get_platform().device_module)
"""Of this process; None without an accelerator."""
_WORK = ("train_batch", "infer_batch")
"""What verl's engines do for a step (verl `workers/engine_workers.py`, `TrainingWorker`)."""


class ActorWorker(ActorRolloutRefWorker):
    """Actor, rollout adapter and reference of one device."""

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def init_model(self) -> None:
        super().init_model()
        for role, worker in (("actor", self.actor), ("reference", self.ref)):
            if _MEMORY and worker:
                _MEMORY.watch(role, worker.engine, *_WORK)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL, blocking=False)
    async def update_weights(self, global_steps: int | None = None, mode: str = "auto") -> Any:
        result = await super().update_weights(global_steps, mode)
        if _MEMORY:
            _MEMORY.note_engine()
        return result

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def apply_settings(self, settings: dict[str, float]) -> dict[str, Any]:
        """Sets what concerns the actor; returns the learning rate in force."""
        if Parameter.LEARNING_RATE in settings:
            set_learning_rate(self.actor, settings[Parameter.LEARNING_RATE])
        set_loss_parameters(self.actor, settings)
        return {"lr": self.actor.engine.optimizer.param_groups[0]["lr"]}

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def load_weights(self, local_path: str) -> None:
        with weights_alone(self.actor):
            self.actor.load_checkpoint(local_path, None, False)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def device_memory(self) -> dict[str, float]:
        """Figures of this process since the last call; none without an accelerator."""
        return _MEMORY.take() if _MEMORY else {}


class CriticWorker(TrainingWorker):
    """Critic of one device, in the actor's process (verl `trainer_base.py` puts all roles into one pool)."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        if _MEMORY:
            _MEMORY.watch("critic", self.engine, *_WORK)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def apply_settings(self, settings: dict[str, float]) -> dict[str, Any]:
        """Sets what concerns the critic; returns the learning rate in force."""
        if Parameter.CRITIC_LEARNING_RATE in settings:
            set_learning_rate(self, settings[Parameter.CRITIC_LEARNING_RATE])
        return {"lr": self.engine.optimizer.param_groups[0]["lr"]}

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def load_weights(self, local_path: str) -> None:
        with weights_alone(self):
            self.load_checkpoint(local_path, None, False)
