# mypy: disable-error-code="import, misc, no-untyped-call, untyped-decorator, attr-defined, union-attr, arg-type"
"""The job's Ray cluster, seen from the entry process."""

import json
import os
import time
from collections.abc import Callable
from typing import Any

import ray
from ray._private.runtime_env.constants import RAY_JOB_CONFIG_JSON_ENV_VAR
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ppojob_contract import names
from ppojob_contract.attempt import AttemptConfig
from ppojob_trainer.configuration import PLUGIN
from ppojob_trainer.errors import CommunicationError

CPUS_PER_DEVICE = 3
"""Logical CPUs that verl reserves with each device (verl `single_controller/ray/base.py`, max_colocate_count)."""


def prepare_environment(platform: str) -> None:
    """What verl reads while it is imported, in this process; `connect` gives the same to all others."""
    modules = [name for name in os.environ.get("VERL_USE_EXTERNAL_MODULES", "").split(",") if name]
    if PLUGIN not in modules:
        os.environ["VERL_USE_EXTERNAL_MODULES"] = ",".join([*modules, PLUGIN])
    os.environ[names.ENV_PLATFORM] = platform
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def connect(config: Any) -> None:
    """Joins the running cluster with verl's runtime environment (verl `trainer/main_ppo.py` would start a new one)."""
    from verl.trainer.constants_ppo import get_ppo_ray_runtime_env  # noqa: PLC0415

    variables = dict(get_ppo_ray_runtime_env(config)["env_vars"])
    variables["TRANSFER_QUEUE_ENABLE"] = "1"
    for name in ("VERL_USE_EXTERNAL_MODULES", names.ENV_PLATFORM, "TOKENIZERS_PARALLELISM"):
        variables[name] = os.environ[name]
    # Ray refuses a name that the job's own runtime environment has, even with the same value.
    variables = {name: value for name, value in variables.items() if name not in _job_variables()}
    try:
        ray.init(address="auto", runtime_env={"env_vars": variables}, log_to_driver=True)
    except ConnectionError as error:
        raise CommunicationError(f"no Ray cluster to join: {error}") from error


def _job_variables() -> dict[str, str]:
    """Environment variables of the Ray job that this process is the driver of; all its workers have them anyway."""
    config: dict[str, Any] = json.loads(os.environ.get(RAY_JOB_CONFIG_JSON_ENV_VAR, "{}"))
    variables: dict[str, str] = (config.get("runtime_env") or {}).get("env_vars") or {}
    return variables


def wait_for_devices(attempt: AttemptConfig, check: Callable[[], None]) -> None:
    """Returns when so many nodes have so many free devices; verl itself fails at once where they are not free yet.

    `check` is called between looks and raises to give up (a stop). Raises CommunicationError at the deadline.
    """
    deadline = time.monotonic() + attempt.startup_timeout_seconds
    while True:
        free = ray._private.state.available_resources_per_node()  # noqa: SLF001 - as verl's own check
        fitting = [node for node in free.values() if _fits(node, attempt.devices_per_node)]
        if len(fitting) >= attempt.nodes:
            return
        if time.monotonic() > deadline:
            found = [{name: node.get(name, 0) for name in ("GPU", "NPU", "CPU")} for node in free.values()]
            raise CommunicationError(
                f"{len(fitting)} of {attempt.nodes} nodes have {attempt.devices_per_node} free devices and "
                f"{attempt.devices_per_node * CPUS_PER_DEVICE} logical CPUs; free on each node: {found}"
            )
        check()
        time.sleep(0.5)


def _fits(node: dict[str, float], devices: int) -> bool:
    there = max(node.get("GPU", 0.0), node.get("NPU", 0.0))
    return there >= devices and node.get("CPU", 0.0) >= devices * CPUS_PER_DEVICE


def on_this_node() -> dict[str, Any]:
    """Options of an actor that must run where the entry runs: journal, mailbox and locks are on this pod's mounts."""
    node = ray.get_runtime_context().get_node_id()
    return {"num_cpus": 0, "scheduling_strategy": NodeAffinitySchedulingStrategy(node_id=node, soft=False)}
