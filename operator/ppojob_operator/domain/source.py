"""Where a job without a checkpoint of its own begins: `spec.checkpoints.resumeFrom`. Found out once, then recorded."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from ppojob_contract.layout import JobLayout, job_folder
from ppojob_contract.names import STORAGE_MOUNT
from ppojob_operator.api.v1alpha1.checkpoints import ResumeFrom
from ppojob_operator.api.v1alpha1.resource import PPOJob
from ppojob_operator.api.v1alpha1.status import (
    AttemptStatus,
    CheckpointPhase,
    CheckpointStatus,
    PPOJobStatus,
    ResumePoint,
    ResumeSource,
)
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.observation import Observation

_FIELD = "spec.checkpoints.resumeFrom"


def needs_source(status: PPOJobStatus, accepted: AcceptedJob) -> str | None:
    """Name of the PPOJob that has to be looked at before the first attempt can begin."""
    wanted = accepted.spec.checkpoints.resume_from
    return wanted.job if wanted is not None and status.attempt is None else None


def source(observation: Observation, accepted: AcceptedJob) -> ResumeSource | str | None:
    """What an attempt without a checkpoint of the job's own begins from, or why that is not known; None: the start."""
    recorded = observation.job.status.attempt
    if recorded is not None:
        return recorded.source
    wanted = accepted.spec.checkpoints.resume_from
    if wanted is None:
        return None
    if wanted.path is not None:
        step = int(wanted.path.rsplit("_", 1)[-1])
        return ResumeSource(path=wanted.path, step=step, weights_only=wanted.weights_only)
    return of_job(wanted, observation.source_job, accepted, _FIELD)


def of_job(wanted: ResumeFrom, other: PPOJob | None, accepted: AcceptedJob, field: str) -> ResumeSource | str:
    """Another job's checkpoint, or why there is none; `field` is where the spec named the job."""
    if other is None:
        return f"{field}.job: no PPOJob '{wanted.job}' in namespace {accepted.namespace}; use path for files it left"
    problem = next(_problems(wanted, other, accepted), None)
    if problem is not None:
        return f"{field}.job: {problem}"
    point = _point(wanted, other.status)
    if point is None:
        there = ", ".join(str(item.step) for item in other.status.checkpoints.items if item.phase in USABLE)
        asked = "a confirmed checkpoint" if wanted.step is None else f"a whole checkpoint of step {wanted.step}"
        return f"{field}: PPOJob {wanted.job} has not {asked}; whole ones: {there or 'none'}"
    folder = Path(STORAGE_MOUNT, _storage(other), job_folder(other.namespace, other.name, other.uid))
    path = JobLayout(folder).attempt(point.attempt).checkpoint(point.step)
    return ResumeSource(job=wanted.job, path=str(path), step=point.step, weights_only=wanted.weights_only)


USABLE = {CheckpointPhase.CONFIRMED, CheckpointPhase.COMPLETE}
"""Phases of a checkpoint that somebody may name."""


def _problems(wanted: ResumeFrom, other: PPOJob, accepted: AcceptedJob) -> Iterator[str]:
    if other.uid == accepted.uid:
        yield "names the job itself; its own checkpoints are gone on from anyway"
    claim = (other.raw_spec.get("storage") or {}).get("claimName")
    if claim != accepted.spec.storage.claim_name:
        yield f"PPOJob {wanted.job} is on claim {claim}, this job on {accepted.spec.storage.claim_name}"


def _point(wanted: ResumeFrom, other: PPOJobStatus) -> ResumePoint | None:
    if wanted.step is None:
        return other.checkpoints.confirmed
    return whole_of_step(other.checkpoints.items, wanted.step)


def whole_of_step(items: Iterable[CheckpointStatus], step: int) -> ResumePoint | None:
    """The checkpoint of that step, of several attempts' the newest; a suspect or abandoned one is none."""
    found = [item for item in items if item.step == step and item.phase in USABLE]
    newest = max(found, key=lambda item: item.attempt, default=None)
    return ResumePoint(attempt=newest.attempt, step=newest.step) if newest else None


def _storage(job: PPOJob) -> str:
    return str((job.raw_spec.get("storage") or {}).get("path") or "")


def begins(attempt: AttemptStatus) -> str:
    """Where an attempt begins, in words."""
    if attempt.resume is not None:
        return f"from step {attempt.resume.step} of attempt {attempt.resume.attempt}"
    if attempt.source is None:
        return "from the start"
    return f"from {'the weights of ' if attempt.source.weights_only else ''}{attempt.source.path}"
