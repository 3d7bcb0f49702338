"""Observations made by hand, for what a whole story would take long to tell."""

from collections.abc import Mapping
from typing import Any

from tests.support.builders import NOW, UID, raw_spec

from ppojob_contract.protocol import AttemptState, LockState, State, StepRow
from ppojob_operator.api.v1alpha1.resource import PPOJob
from ppojob_operator.api.v1alpha1.spec import PPOJobSpec
from ppojob_operator.api.v1alpha1.status import AttemptStatus, PPOJobStatus
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.observation import (
    HeadPod,
    MonitorView,
    Observation,
    RayClusterView,
    RayJobView,
    Reach,
)

HEAD = HeadPod(name="head", uid="head-1", ip="10.0.0.1", ready=True, failed=False, restarts=0)
CLUSTER = RayClusterView(
    name="job-c1", uid="cluster-1", number=1, deleting=False, head=HEAD, workers_ready=0, workers_desired=0
)
RAY_JOB = RayJobView(
    name="job-a1", uid="job-1", attempt=1, deleting=False, job_status="RUNNING", deployment_status="Running"
)


def observation(status: PPOJobStatus, *, spec: dict[str, Any] | None = None, **fields: Any) -> Observation:
    """Of a job that was accepted, with no Ray objects and no monitor but for what `fields` say."""
    raw = spec or raw_spec()
    job = PPOJob(
        namespace="team",
        name="job",
        uid=UID,
        generation=1,
        resource_version="1",
        created=NOW,
        deleting=False,
        raw_spec=raw,
        status=status,
    )
    accepted = AcceptedJob(namespace="team", name="job", uid=UID, generation=1, spec=PPOJobSpec.model_validate(raw))
    values: dict[str, Any] = {
        "now": NOW,
        "job": job,
        "accepted": accepted,
        "problems": (),
        "warnings": (),
        "clusters": (),
        "jobs": (),
        "monitor": MonitorView(reach=Reach.NO_POD),
    }
    return Observation(**(values | fields))


def attempt(**fields: Any) -> AttemptStatus:
    """Attempt 1 on the head pod of `CLUSTER`, with `RAY_JOB` for a RayJob."""
    values: dict[str, Any] = {"number": 1, "cluster": 1, "head_uid": HEAD.uid, "created": NOW, "job_uid": RAY_JOB.uid}
    return AttemptStatus(**(values | fields))


def attempt_state(**fields: Any) -> AttemptState:
    """What is on disk of attempt 1, which trains."""
    values: dict[str, Any] = {
        "attempt": 1,
        "rows": 0,
        "last_step": None,
        "last_heartbeat_age_seconds": 0.0,
        "command": None,
        "claimed_by": None,
        "ack": None,
        "outcome": None,
    }
    return AttemptState(**(values | fields))


def reached(
    *attempts: AttemptState,
    lock: LockState = LockState.HELD,
    rows: Mapping[int, tuple[StepRow, ...]] | None = None,
) -> MonitorView:
    """The answers of a monitor that answers."""
    state = State(job_uid=UID, pod_uid=HEAD.uid, lock=lock, attempts=attempts, checkpoints=(), confirmed=())
    return MonitorView(reach=Reach.OK, state=state, rows=rows or {})
