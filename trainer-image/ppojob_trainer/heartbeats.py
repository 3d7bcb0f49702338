"""Signs of life from inside verl's loop."""

import functools
from collections.abc import Callable
from typing import Any

PHASES = (
    "_init_dataloader",
    "_init_resource_pool_mgr",
    "_load_checkpoint",
    "_balance_batch",
    "_compute_old_log_prob",
    "_compute_ref_log_prob",
    "_compute_values",
    "_compute_advantage",
    "_update_critic",
    "_update_actor",
    "_save_checkpoint",
    "_validate",
    "on_init_end",
    "on_sample_begin",
    "on_sample_end",
    "on_step_end",
)
"""Methods of verl's trainer at whose beginning and end the attempt is seen alive."""


def show_life(trainer: Any) -> None:
    """Wraps the phases of this one trainer, so that whatever class defines them is left alone."""
    for name in PHASES:
        setattr(trainer, name, _beating(getattr(trainer, name), trainer))


def _beating(method: Callable[..., Any], trainer: Any) -> Callable[..., Any]:
    @functools.wraps(method)
    def phase(*args: Any, **kwargs: Any) -> Any:
        trainer.files.beat()
        try:
            return method(*args, **kwargs)
        finally:
            trainer.files.beat()

    return phase
