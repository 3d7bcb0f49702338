"""verl's configuration keys that the trainer sets itself; anyone else's value for them is refused by name.

`trainer.overrides` and the keys that the operator renders from the API's fields must keep out of these. Keys that an
API field stands for (`trainer.save_freq`, `data.train_files`) are the operator's own affair and not listed.
"""

from typing import Final

_CHECKPOINTS = "each attempt has its own checkpoint folder and retention is the operator's"
_RESUME = "the operator says what an attempt begins from"
_REWARD = "rewards come from spec.reward.terms"
_LENGTH = "the length of training is the job's totalSteps"
_TRAINER = "the job runs the trainer 'ppojob'"
_SAMPLES = "spec.samples says which samples are kept"
_DEVICES = "devices come from spec.cluster"

MANAGED: Final[dict[str, str]] = {
    "trainer.default_local_dir": _CHECKPOINTS,
    "trainer.default_hdfs_dir": _CHECKPOINTS,
    "trainer.max_actor_ckpt_to_keep": _CHECKPOINTS,
    "trainer.max_critic_ckpt_to_keep": _CHECKPOINTS,
    "trainer.remove_previous_ckpt_in_save": _CHECKPOINTS,
    "trainer.del_local_ckpt_after_load": _CHECKPOINTS,
    "trainer.checkpoint_callback_class": _CHECKPOINTS,
    "actor_rollout_ref.actor.checkpoint.async_save": _CHECKPOINTS,
    "actor_rollout_ref.actor.checkpoint.load_contents": _CHECKPOINTS,
    "critic.checkpoint.async_save": _CHECKPOINTS,
    "critic.checkpoint.load_contents": _CHECKPOINTS,
    "trainer.resume_mode": _RESUME,
    "trainer.resume_from_path": _RESUME,
    "trainer.total_epochs": _LENGTH,
    "trainer.total_training_steps": _LENGTH,
    "trainer.nnodes": _DEVICES,
    "trainer.n_gpus_per_node": _DEVICES,
    "trainer.device": _DEVICES,
    "trainer.use_v1": _TRAINER,
    "trainer.v1.trainer_mode": _TRAINER,
    "trainer.v1.ppojob": _TRAINER,
    "trainer.v1.sampler.custom_sampler": "a custom sampler would switch dynamic sampling off",
    "trainer.logger": "figures reach trackers through the journal",
    "trainer.rollout_data_dir": _SAMPLES,
    "trainer.validation_data_dir": _SAMPLES,
    "trainer.project_name": "named after the job",
    "trainer.experiment_name": "named after the job",
    "transfer_queue.enable": _TRAINER,
    "reward.custom_reward_function": _REWARD,
    "custom_reward_function": _REWARD,
    "reward.reward_manager": _REWARD,
    "reward.reward_model": _REWARD,
    "reward_model": _REWARD,
    "ray_kwargs": "the trainer joins the job's Ray cluster",
}
"""Dotted prefix and why it is not to be set."""

MANAGED_PREFIXES: Final[frozenset[str]] = frozenset(MANAGED)


def managed_reason(key: str) -> str | None:
    """Why `key` may not be set; None for a free key.

    A key above a managed one counts as managed too: its value would replace all that is below it.
    """
    for prefix, reason in MANAGED.items():
        if key == prefix or key.startswith(f"{prefix}.") or prefix.startswith(f"{key}."):
            return reason
    return None
