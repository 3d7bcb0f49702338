"""What runs beside training: the RayJob of a stage, and the trial, a PPOJob of its own."""

from collections.abc import Mapping
from typing import Any

from ppojob_contract.names import ENV_STAGE, STAGE_ENTRYPOINT
from ppojob_contract.stages import Stage, StageConfig
from ppojob_operator.api.v1alpha1 import resource
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.render import names, objects
from ppojob_operator.render.raycluster import API_VERSION
from ppojob_operator.render.rayjob import submission


def render_stage(
    job: AcceptedJob, *, cluster_number: int, stage: Stage, run: int, key: str, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """`<base>-<stage>-<run>`, to be created once."""
    base, cluster = names.base(job.name, job.uid), job.spec.cluster
    name = names.stage_job_name(base, stage, run)
    config = StageConfig(
        namespace=job.namespace,
        name=job.name,
        uid=job.uid,
        root=job.root,
        stage=stage,
        run=run,
        key=key,
        settings=settings,
        device=cluster.device.value,
        devices_per_node=cluster.devices_per_node,
        nodes=cluster.nodes,
    )
    return {
        "apiVersion": API_VERSION,
        "kind": "RayJob",
        "metadata": objects.metadata(job, name, stage.value.lower()),
        "spec": submission(
            name,
            cluster=names.cluster_name(base, cluster_number),
            entrypoint=STAGE_ENTRYPOINT,
            variable=ENV_STAGE,
            config=config.to_json(),
        ),
    }


def render_trial(job: AcceptedJob, *, run: int, spec: Mapping[str, Any]) -> dict[str, Any]:
    """A PPOJob that the job owns; its labels are its own, so that its pods are not taken for the job's."""
    name = names.trial_name(names.base(job.name, job.uid), run)
    return {
        "apiVersion": resource.API_VERSION,
        "kind": resource.KIND,
        "metadata": objects.metadata(job, name, "trial"),
        "spec": dict(spec),
    }
