"""`PPOJob.spec`: training (see `training.py`), where it runs, what is kept, and what happens when it goes bad."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from ppojob_contract.data_plan import DataOrder
from ppojob_contract.parameters import Parameter
from ppojob_operator.api.v1alpha1.base import (
    FREE_FORM,
    Count,
    Model,
    ObjectName,
    Quantity,
    Seconds,
    Text,
    Whole,
    list_map,
    rules,
)
from ppojob_operator.api.v1alpha1.checkpoints import Checkpoints, Restart
from ppojob_operator.api.v1alpha1.evaluation import RULES_OF_SPEC, Evaluation, Export
from ppojob_operator.api.v1alpha1.guardrails import Guardrails, OnExhausted
from ppojob_operator.api.v1alpha1.reward import Reward
from ppojob_operator.api.v1alpha1.samples import Samples
from ppojob_operator.api.v1alpha1.training import Algorithm, Data, Models, Rollout, Training

DEFAULT_KL_TARGET = 0.1
"""verl's, where `algorithm.kl.target` is not set."""


class ImagePullPolicy(StrEnum):
    """As of a container."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class EnvVar(Model):
    """An environment variable of the trainer's containers."""

    name: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = Field(
        description="PPOJOB_ and the names that Ray's start depends on are refused"
    )
    value: Annotated[str, Field(max_length=4096)] = Field(default="", description="Plain text; $ has no meaning")


class Override(Model):
    """One of verl's own configuration keys, set as data."""

    key: Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*$")] = (
        Field(description="Dotted; keys that the operator manages or that a field stands for are refused by name")
    )
    value: Annotated[
        bool | int | float | Annotated[str, Field(max_length=4096)] | None, Field(json_schema_extra=FREE_FORM)
    ] = Field(description="A YAML scalar; an interpolation (${...}) is refused")


class LocalObjectReference(Model):
    """An object of the job's namespace."""

    name: ObjectName = Field(description="Its name")


class Trainer(Model):
    """The trainer's container."""

    image: Text | None = Field(default=None, description="Default: the operator's, for the cluster's device")
    image_pull_policy: ImagePullPolicy | None = Field(default=None, description="Default: the operator's")
    image_pull_secrets: Annotated[
        list[LocalObjectReference], Field(max_length=16, json_schema_extra=list_map("name"))
    ] = Field(default_factory=list, description="Secrets with registry credentials")
    env: Annotated[list[EnvVar], Field(max_length=64, json_schema_extra=list_map("name"))] = Field(
        default_factory=list, description="Environment of the Ray containers; a change needs a new Ray cluster"
    )
    overrides: Annotated[list[Override], Field(max_length=128, json_schema_extra=list_map("key"))] = Field(
        default_factory=list, description="verl's own configuration keys, for what has no field"
    )


class Device(StrEnum):
    """What a training process computes on."""

    NVIDIA_GPU = "NvidiaGPU"
    ASCEND_NPU = "AscendNPU"
    CPU = "CPU"


class Resources(Model):
    """Requests and limits, as of a container."""

    requests: Annotated[dict[str, Quantity], Field(max_length=16)] = Field(
        default_factory=dict, description="By resource name"
    )
    limits: Annotated[dict[str, Quantity], Field(max_length=16)] = Field(
        default_factory=dict, description="By resource name"
    )


class Toleration(Model):
    """As of a pod."""

    key: Annotated[str, Field(max_length=317)] | None = Field(default=None, description="Taint's key; none: all keys")
    operator: Annotated[str, Field(pattern=r"^(Exists|Equal)$", max_length=6)] | None = Field(
        default=None, description="Exists or Equal (default)"
    )
    value: Annotated[str, Field(max_length=63)] | None = Field(default=None, description="Taint's value")
    effect: Annotated[str, Field(pattern=r"^(NoSchedule|PreferNoSchedule|NoExecute)$", max_length=16)] | None = Field(
        default=None, description="Taint's effect; none: all effects"
    )
    toleration_seconds: Whole | None = Field(default=None, description="How long NoExecute is tolerated")


class ClusterSpec(Model):
    """The Ray cluster. One node means one pod; with more, the head has no devices and `nodes` workers have."""

    nodes: Annotated[int, Field(ge=1, le=4096)] = Field(default=1, description="Pods with devices")
    devices_per_node: Annotated[int, Field(ge=1, le=64)] = Field(
        default=1, description="Devices of each; on CPU: training processes"
    )
    device: Device = Field(default=Device.NVIDIA_GPU, description="CPU is for tests and toys")
    resource_name: Annotated[str, Field(min_length=1, max_length=317)] | None = Field(
        default=None, description="Extended resource of the device; default nvidia.com/gpu, huawei.com/Ascend910"
    )
    resources: Resources = Field(default_factory=Resources, description="Of each pod with devices, beside the devices")
    head_resources: Resources = Field(default_factory=Resources, description="Of the head where nodes > 1")
    shared_memory: Quantity = Field(default="10Gi", description="Size of each pod's shared memory; counts as memory")
    node_selector: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=16)] = Field(
        default_factory=dict, description="Labels of the nodes to run on"
    )
    tolerations: Annotated[list[Toleration], Field(max_length=16)] = Field(
        default_factory=list, description="Taints to run in spite of"
    )
    priority_class_name: ObjectName | None = Field(default=None, description="PriorityClass of the pods")
    pod_template: Annotated[dict[str, Any], Field(json_schema_extra=FREE_FORM)] = Field(
        default_factory=dict,
        description="Laid over each pod's template: maps are merged, named items of lists by their name, other lists "
        "are put after ours; the Ray container is called ray, the monitor (an init container) monitor",
    )


class Storage(Model):
    """A POSIX volume (exclusive create, rename, fsync; ReadWriteMany for several nodes)."""

    claim_name: ObjectName = Field(description="PersistentVolumeClaim in the job's namespace")
    path: Annotated[
        str, Field(max_length=512, pattern=r"^([A-Za-z0-9][-._A-Za-z0-9]*(/[A-Za-z0-9][-._A-Za-z0-9]*)*)?$")
    ] = Field(default="", description="Folder on the volume, relative; each job has its own folder in it")


class Adjustment(Model):
    """A change of one parameter at each rollback."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "[has(self.multiply), has(self.add), has(self.set)].filter(x, x).size() == 1",
                "set exactly one of multiply, add, set",
            ),
            ("!has(self.min) || !has(self.max) || self.min <= self.max", "min must not exceed max", ".min"),
        )
    )
    parameter: Parameter = Field(description="What to change")
    multiply: float | None = Field(default=None, description="By this factor")
    add: float | None = Field(default=None, description="By this much")
    set: float | None = Field(default=None, description="To this value")
    min: float | None = Field(default=None, description="Never below")
    max: float | None = Field(default=None, description="Never above")


class RollbackMode(StrEnum):
    """Ways of a rollback."""

    AUTO = "Auto"
    COLD = "Cold"


class RollbackPolicy(Model):
    """How a run that went bad goes on."""

    limit: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=3, description="Rollbacks without a later checkpoint being confirmed in between"
    )
    data: DataOrder = Field(
        default=DataOrder.SKIP_FAILING,
        description="SkipFailing: the batches of the steps that went bad, and of the step before, are left out; Replay:"
        " they come again; Reshuffle: all data in another order, from its beginning (docs/data-and-samples.md)",
    )
    on_exhausted: OnExhausted = Field(
        default=OnExhausted.FAIL, description="When no rollback is left or there is no checkpoint for it"
    )
    min_healthy_steps: Whole = Field(
        default=20,
        description="The same guardrail breached again so soon after a rollback takes the run to an older checkpoint",
    )
    grace_steps: Whole = Field(
        default=3,
        description="Steps after a resume in which Rollback guardrails only warn, but for values that are not finite",
    )
    path: RollbackMode = Field(
        default=RollbackMode.AUTO,
        description="Auto: in the running trainer where possible, which takes seconds; Cold: by a new start of it",
    )
    adjust: Annotated[list[Adjustment], Field(max_length=8, json_schema_extra=list_map("parameter"))] = Field(
        default_factory=list,
        description="Parameters to change; without any, and with data Replay, the run may repeat itself",
    )


class FailurePolicy(Model):
    """What a crash leads to."""

    max_restarts: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=3, description="Restarts without a new step in between"
    )
    startup_timeout_seconds: Seconds = Field(default=1800, description="Until an attempt's first step")
    step_timeout_seconds: Seconds = Field(default=3600, description="Without any sign of life")


class Trial(Model):
    """A short run on a cluster of its own, before the job asks for its devices; any guardrail's breach fails it."""

    steps: Annotated[int, Field(ge=1, le=1000)] = Field(default=5, description="Training steps")
    devices_per_node: Annotated[int, Field(ge=1, le=64)] = Field(default=1, description="Devices, on one node")
    resources: Resources | None = Field(default=None, description="Of its pod; default: as the job's pods have")
    max_rows: Count = Field(default=2000, description="Of each source of data.prepare")


_KL_BOUND = (
    "self.algorithm.kl.control != 'Adaptive' || !has(self.guardrails) || self.guardrails.all(g, !has(g.conditions) || "
    "g.conditions.all(c, !has(c.metric) || c.metric != 'kl' || !has(c.above) || c.above > "
    f"(has(self.algorithm.kl.target) ? self.algorithm.kl.target : {DEFAULT_KL_TARGET})))"
)


class PPOJobSpec(Model):
    """A training run, from prompts to a trained model."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.model.critic) || self.algorithm.estimator == 'GAE'",
                "only estimator GAE has a critic: remove critic, or set algorithm.estimator to GAE",
                ".model.critic",
            ),
            (
                "!(self.algorithm.estimator in ['GRPO', 'RLOO']) || self.rollout.samplesPerPrompt >= 2",
                "estimators GRPO and RLOO compare the samples of a prompt: samplesPerPrompt must be 2 or more",
                ".rollout.samplesPerPrompt",
            ),
            (
                _KL_BOUND,
                "above of a guardrail on kl must exceed algorithm.kl.target (default 0.1): Adaptive steers to it",
                ".guardrails",
            ),
            *RULES_OF_SPEC,
        )
    )
    suspend: bool = Field(default=False, description="Save, stop and give the devices back; false again resumes")
    restart: Restart | None = Field(
        default=None, description="Another attempt by hand, also of a job that was paused or failed after training"
    )
    graceful_stop_seconds: Seconds = Field(default=300, description="For finishing a step and saving before a stop")
    ttl_seconds_after_finished: Whole | None = Field(
        default=None, description="Delete the PPOJob so long after its end; its files stay"
    )
    trainer: Trainer = Field(default_factory=Trainer, description="The trainer's container")
    model: Models = Field(description="Models to train")
    data: Data = Field(description="Prompts, as Parquet files with verl's columns")
    reward: Reward = Field(description="Weighted sum of its terms")
    algorithm: Algorithm = Field(default_factory=Algorithm, description="Advantages and losses")
    training: Training = Field(description="Steps, batches and optimizers")
    rollout: Rollout = Field(default_factory=Rollout, description="Generation of responses")
    cluster: ClusterSpec = Field(default_factory=ClusterSpec, description="The Ray cluster")
    storage: Storage = Field(description="A POSIX volume for checkpoints, journals and samples")
    checkpoints: Checkpoints = Field(
        default_factory=Checkpoints, description="When to save, when to trust and what to keep"
    )
    guardrails: Guardrails = Field(
        default_factory=list, description="Bounds on figures of the run, judged at every step"
    )
    default_guardrails: bool = Field(
        default=True,
        description="Have presets NonFinite and RewardFunctionFailing too, each unless guardrails has one of it",
    )
    rollback: RollbackPolicy = Field(default_factory=RollbackPolicy, description="How a run that went bad goes on")
    samples: Samples = Field(
        default_factory=Samples, description="What is kept of prompts, responses and rewards (docs/data-and-samples.md)"
    )
    failure_policy: FailurePolicy = Field(default_factory=FailurePolicy, description="What a crash leads to")
    trial: Trial | None = Field(
        default=None, description="A short run on a small cluster of its own first; it never seeds this one"
    )
    evaluation: Evaluation | None = Field(default=None, description="Compare the trained model with another one")
    export: Export | None = Field(default=None, description="Hugging Face weights of the trained model")
