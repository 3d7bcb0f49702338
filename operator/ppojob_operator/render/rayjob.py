"""The RayJob of an attempt: a cold start of training in a cluster that is there."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ppojob_contract.attempt import AttemptConfig, Resume, SampleSettings
from ppojob_contract.data_plan import DataPlan
from ppojob_contract.mailbox import CheckpointRef
from ppojob_contract.names import ENV_ATTEMPT, TRAIN_ENTRYPOINT
from ppojob_operator.api.v1alpha1.checkpoints import Verify
from ppojob_operator.api.v1alpha1.status import ParameterValue, ResumePoint, ResumeSource
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.pipeline.ahead import afterwards
from ppojob_operator.domain.pipeline.settings import resolved
from ppojob_operator.domain.reward_terms import told_terms
from ppojob_operator.render import names, objects, verl
from ppojob_operator.render.raycluster import API_VERSION

NOTHING_LEFT_OUT = DataPlan()


def render_attempt(
    job: AcceptedJob,
    *,
    cluster_number: int,
    attempt: int,
    resume: ResumePoint | None,
    source: ResumeSource | None = None,
    adjustments: Sequence[ParameterValue],
    data: DataPlan = NOTHING_LEFT_OUT,
) -> dict[str, Any]:
    """`<base>-a<attempt>`, to be created once."""
    base = names.base(job.name, job.uid)
    name = names.job_name(base, attempt)
    config = attempt_config(job, attempt=attempt, resume=resume, source=source, adjustments=adjustments, data=data)
    return {
        "apiVersion": API_VERSION,
        "kind": "RayJob",
        "metadata": objects.metadata(job, name, "attempt"),
        "spec": submission(
            name,
            cluster=names.cluster_name(base, cluster_number),
            entrypoint=TRAIN_ENTRYPOINT,
            variable=ENV_ATTEMPT,
            config=config.to_json(),
        ),
    }


def submission(name: str, *, cluster: str, entrypoint: str, variable: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The RayJob's `spec`: one program of the image, told everything by one environment variable."""
    return {
        "submissionMode": "HTTPMode",
        "clusterSelector": {"ray.io/cluster": cluster},
        # The same id when it is created again: Ray then finds the job that ran and does not start a second one.
        "jobId": name,
        "entrypoint": entrypoint,
        "runtimeEnvYAML": _runtime_environment(variable, config),
        "backoffLimit": 0,
        "shutdownAfterJobFinishes": False,
    }


def attempt_config(
    job: AcceptedJob,
    *,
    attempt: int,
    resume: ResumePoint | None,
    source: ResumeSource | None = None,
    adjustments: Sequence[ParameterValue],
    data: DataPlan = NOTHING_LEFT_OUT,
) -> AttemptConfig:
    """All that the trainer is told."""
    spec = resolved(job)
    return AttemptConfig(
        namespace=job.namespace,
        name=job.name,
        uid=job.uid,
        attempt=attempt,
        root=job.root,
        overrides=verl.overrides(spec, first_attempt=attempt == 1),
        reward_terms=told_terms(spec),
        total_steps=spec.training.total_steps,
        max_response_length=spec.data.max_response_length,
        devices_per_node=spec.cluster.devices_per_node,
        nodes=spec.cluster.nodes,
        settings={item.parameter.value: item.value for item in adjustments},
        resume=_resume(resume, source),
        data=data,
        # Only where the run begins: one that has been trained for days is not ended over what comes after it.
        afterwards=afterwards(job) if resume is None else {},
        samples=SampleSettings(
            every_steps=spec.samples.train_every_steps,
            keep_last=spec.samples.keep_last,
            validation=spec.samples.validation,
        ),
        checksums=spec.checkpoints.verify is Verify.CHECKSUMS,
        graceful_stop_seconds=spec.graceful_stop_seconds,
        startup_timeout_seconds=spec.failure_policy.startup_timeout_seconds,
        step_timeout_seconds=spec.failure_policy.step_timeout_seconds,
    )


def _resume(resume: ResumePoint | None, source: ResumeSource | None) -> Resume | None:
    """A checkpoint of the job's own comes before what the job began from."""
    if resume is not None:
        return Resume(checkpoint=CheckpointRef(attempt=resume.attempt, step=resume.step))
    if source is None:
        return None
    elsewhere = CheckpointRef(attempt=0, step=source.step)
    return Resume(checkpoint=elsewhere, weights_only=source.weights_only, folder=source.path)


def _runtime_environment(variable: str, config: Mapping[str, Any]) -> str:
    """JSON, which is YAML. Ray replaces $NAME in values of environment variables by those of its own processes, so a
    dollar sign (of a regular expression, say) is written as its escape in JSON; ASCII keeps YAML readers from
    stumbling over escaped surrogate pairs.
    """
    value = json.dumps(config, separators=(",", ":"), allow_nan=False).replace("$", "\\u0024")
    return json.dumps({"env_vars": {variable: value}}, ensure_ascii=False)
