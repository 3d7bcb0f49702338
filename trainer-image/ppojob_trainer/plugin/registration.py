# mypy: disable-error-code="import, misc, no-untyped-call, untyped-decorator, attr-defined, union-attr, arg-type"
"""Makes the rollout `hf_cpu` known to verl, on both of its ends."""

from typing import Any

from verl.workers.rollout import base
from verl.workers.rollout.replica import RolloutReplicaRegistry

from ppojob_trainer.plugin.hf_rollout import NAME, HFReplica, HFServerAdapter


def register_rollout() -> None:
    """The replica has a registry; the adapter is looked up in a private table (verl `workers/rollout/base.py`)."""
    adapter = f"{HFServerAdapter.__module__}.{HFServerAdapter.__qualname__}"
    base._ROLLOUT_REGISTRY[(NAME, "async")] = adapter  # noqa: SLF001
    RolloutReplicaRegistry.register(NAME, _replica)


def _replica() -> type[Any]:
    return HFReplica
