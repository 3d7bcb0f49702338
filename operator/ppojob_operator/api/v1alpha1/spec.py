"""`PPOJob.spec`: training (see `training.py`), where it runs, what is kept, and what happens when it goes bad."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from ppojob_contract.parameters import Parameter
from ppojob_operator.api.v1alpha1.base import (
    Count,
    Model,
    Name,
    ObjectName,
    Quantity,
    Seconds,
    Text,
    Whole,
    list_map,
    rules,
)
from ppojob_operator.api.v1alpha1.training import Algorithm, Data, Models, Reward, Rollout, Training


class ImagePullPolicy(StrEnum):
    """As of a container."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class EnvVar(Model):
    """An environment variable of the trainer's containers."""

    name: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    value: Annotated[str, Field(max_length=4096)] = ""


class Override(Model):
    """One of verl's own configuration keys, set as data."""

    key: Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*$")]
    value: Annotated[
        bool | int | float | str | None, Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})
    ] = Field(description="A YAML scalar; an interpolation (${...}) is refused")


class LocalObjectReference(Model):
    """An object of the job's namespace."""

    name: ObjectName


class Trainer(Model):
    """The trainer's container."""

    image: Text | None = Field(default=None, description="Default: the operator's, for the cluster's device")
    image_pull_policy: ImagePullPolicy | None = None
    image_pull_secrets: Annotated[
        list[LocalObjectReference], Field(max_length=16, json_schema_extra=list_map("name"))
    ] = Field(default_factory=list)
    env: Annotated[list[EnvVar], Field(max_length=64, json_schema_extra=list_map("name"))] = Field(default_factory=list)
    overrides: Annotated[list[Override], Field(max_length=128, json_schema_extra=list_map("key"))] = Field(
        default_factory=list
    )


class Device(StrEnum):
    """What a training process computes on."""

    NVIDIA_GPU = "NvidiaGPU"
    ASCEND_NPU = "AscendNPU"
    CPU = "CPU"


class Resources(Model):
    """Requests and limits, as of a container."""

    requests: Annotated[dict[str, Quantity], Field(max_length=16)] = Field(default_factory=dict)
    limits: Annotated[dict[str, Quantity], Field(max_length=16)] = Field(default_factory=dict)


class Toleration(Model):
    """As of a pod."""

    key: Annotated[str, Field(max_length=317)] | None = None
    operator: Annotated[str, Field(pattern=r"^(Exists|Equal)$", max_length=6)] | None = None
    value: Annotated[str, Field(max_length=63)] | None = None
    effect: Annotated[str, Field(pattern=r"^(NoSchedule|PreferNoSchedule|NoExecute)$", max_length=16)] | None = None
    toleration_seconds: Whole | None = None


class ClusterSpec(Model):
    """The Ray cluster. One node means one pod; with more, the head has no devices and `nodes` workers have."""

    nodes: Annotated[int, Field(ge=1, le=4096)] = Field(default=1, description="Pods with devices")
    devices_per_node: Annotated[int, Field(ge=1, le=64)] = 1
    device: Device = Device.NVIDIA_GPU
    resource_name: Annotated[str, Field(max_length=317)] | None = Field(
        default=None, description="Extended resource of the device; default nvidia.com/gpu, huawei.com/Ascend910"
    )
    resources: Resources = Field(default_factory=Resources, description="Of each pod with devices")
    head_resources: Resources = Field(default_factory=Resources, description="Of the head where nodes > 1")
    shared_memory: Quantity = Field(default="10Gi", description="Of each pod; counts as its memory")
    node_selector: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=16)] = Field(
        default_factory=dict
    )
    tolerations: Annotated[list[Toleration], Field(max_length=16)] = Field(default_factory=list)
    priority_class_name: ObjectName | None = None
    pod_template: Annotated[dict[str, Any], Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})] = (
        Field(default_factory=dict, description="Laid over each pod's template (strategic merge by name)")
    )


class Storage(Model):
    """A POSIX volume (exclusive create, rename, fsync; ReadWriteMany for several nodes)."""

    claim_name: ObjectName = Field(description="PersistentVolumeClaim in the job's namespace")
    path: Annotated[
        str, Field(max_length=512, pattern=r"^([A-Za-z0-9][-._A-Za-z0-9]*(/[A-Za-z0-9][-._A-Za-z0-9]*)*)?$")
    ] = Field(default="", description="Folder on the volume, relative")


class Checkpoints(Model):
    """When to save and when to trust."""

    every_steps: Count = 10
    confirm_steps: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=5, description="Clean steps before and after a checkpoint that make it Confirmed"
    )


class GuardrailAction(StrEnum):
    """What a breach leads to."""

    WARN = "Warn"
    ROLLBACK = "Rollback"


class Condition(Model):
    """A bound on one figure."""

    model_config = ConfigDict(
        json_schema_extra=rules(("has(self.above) || has(self.below)", "set a threshold: above, below or both"))
    )
    metric: Annotated[str, Field(min_length=1, max_length=128)] = Field(
        description="A figure (docs/figures.md) or, with a slash, one of verl's own metric keys"
    )
    above: float | None = Field(default=None, description="Breached when the value is greater")
    below: float | None = Field(default=None, description="Breached when the value is smaller")


class Guardrail(Model):
    """Conditions on figures of the run, judged at every step."""

    name: Name
    conditions: Annotated[list[Condition], Field(min_length=1, max_length=1)]
    for_steps: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=1, description="Consecutive observations that must be bad"
    )
    after_step: Whole = Field(default=0, description="Global step up to which nothing is judged")
    action: GuardrailAction = GuardrailAction.WARN
    dry_run: bool = Field(default=False, description="Say what would be done, do nothing")


class Adjustment(Model):
    """A change of one parameter at each rollback."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "[has(self.multiply), has(self.add), has(self.set)].filter(x, x).size() == 1",
                "set exactly one of multiply, add, set",
            ),
            ("!has(self.min) || !has(self.max) || self.min <= self.max", "min must not exceed max"),
        )
    )
    parameter: Parameter
    multiply: float | None = None
    add: float | None = None
    set: float | None = None
    min: float | None = None
    max: float | None = None


class RollbackPolicy(Model):
    """How a run that went bad goes on."""

    limit: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=3, description="Rollbacks without a later checkpoint being confirmed in between"
    )
    grace_steps: Whole = Field(default=3, description="Steps after a resume in which Rollback guardrails only warn")
    adjust: Annotated[list[Adjustment], Field(max_length=8, json_schema_extra=list_map("parameter"))] = Field(
        default_factory=list
    )


class FailurePolicy(Model):
    """What a crash leads to."""

    max_restarts: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=3, description="Restarts without a new step in between"
    )
    startup_timeout_seconds: Seconds = Field(default=1800, description="Until an attempt's first step")
    step_timeout_seconds: Seconds = Field(default=3600, description="Without any sign of life")


class PPOJobSpec(Model):
    """A training run, from prompts to a trained model."""

    suspend: bool = Field(default=False, description="Save, stop and give the devices back; false again resumes")
    graceful_stop_seconds: Seconds = Field(default=300, description="For finishing a step and saving before a stop")
    ttl_seconds_after_finished: Whole | None = Field(
        default=None, description="Delete the PPOJob so long after its end; its files stay"
    )
    trainer: Trainer = Field(default_factory=Trainer)
    model: Models
    data: Data
    reward: Reward
    algorithm: Algorithm = Field(default_factory=Algorithm)
    training: Training
    rollout: Rollout = Field(default_factory=Rollout)
    cluster: ClusterSpec = Field(default_factory=ClusterSpec)
    storage: Storage
    checkpoints: Checkpoints = Field(default_factory=Checkpoints)
    guardrails: Annotated[list[Guardrail], Field(max_length=32, json_schema_extra=list_map("name"))] = Field(
        default_factory=list
    )
    rollback: RollbackPolicy = Field(default_factory=RollbackPolicy)
    failure_policy: FailurePolicy = Field(default_factory=FailurePolicy)
