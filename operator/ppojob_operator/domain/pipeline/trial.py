"""The trial: a PPOJob of its own, made from the job's spec, that has to succeed before the job takes its devices."""

import math
from typing import Any

from ppojob_contract.outcomes import ExitClass
from ppojob_operator.api.v1alpha1.guardrails import Guardrail, GuardrailAction, OnExhausted
from ppojob_operator.api.v1alpha1.resource import PPOJob
from ppojob_operator.api.v1alpha1.spec import PPOJobSpec, Trial
from ppojob_operator.api.v1alpha1.stage_status import StageName, StagePhase
from ppojob_operator.api.v1alpha1.status import ConditionType, PPOJobStatus
from ppojob_operator.domain.decisions import CloseStage, Decision, RemoveTrial, StartTrial, Wait
from ppojob_operator.domain.guardrails.guards import expand
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.observation import Observation
from ppojob_operator.domain.pause import paused
from ppojob_operator.domain.pipeline.recorded import recorded
from ppojob_operator.domain.provision import SOON
from ppojob_operator.domain.rollback import fail

_ENDS = {GuardrailAction.ROLLBACK, GuardrailAction.PAUSE}


def looks_at_trial(status: PPOJobStatus, accepted: AcceptedJob) -> bool:
    """Whether the trial has to be looked at: it is needed, or runs and may not be wanted any more."""
    entry = recorded(status, StageName.TRIAL)
    return _needed(status, accepted) or (entry is not None and entry.phase is StagePhase.RUNNING)


def _needed(status: PPOJobStatus, accepted: AcceptedJob) -> bool:
    entry = recorded(status, StageName.TRIAL)
    over = entry is not None and entry.phase is StagePhase.SUCCEEDED
    return accepted.spec.trial is not None and status.cluster_number == 0 and not over


def trial(observation: Observation, accepted: AcceptedJob) -> Decision | None:
    """The next act of the trial; None where there is none, or it has succeeded."""
    status, wanted = observation.job.status, accepted.spec.trial
    if wanted is None:
        return stop_trial(observation, "spec.trial was removed")
    if not _needed(status, accepted):
        return None
    entry, child = recorded(status, StageName.TRIAL), observation.trial_job
    if child is None:
        run = 1 if entry is None else entry.run if entry.job_uid is None else entry.run + 1
        return StartTrial(run=run, spec=trial_spec(accepted.spec, wanted))
    if paused(child.status) and child.status.paused_by is not None:
        return fail(observation, "TrialFailed", f"trial {child.name} was paused: {child.status.paused_by.message}")
    if child.status.finished is None:
        told = f": {child.status.message}" if child.status.message else ""
        return Wait(reason="TrialRunning", message=f"trial {child.name} is {child.status.phase.value}{told}")
    if child.status.outcome is not ExitClass.SUCCEEDED:
        return fail(observation, "TrialFailed", f"trial {child.name}: {_why(child)}")
    return CloseStage(
        stage=StageName.TRIAL,
        key="",
        phase=StagePhase.SUCCEEDED,
        result=ExitClass.SUCCEEDED.value,
        message=f"{wanted.steps} steps of trial {child.name} are done",
    )


def stop_trial(observation: Observation, why: str) -> Decision | None:
    """The next act towards no trial; its entry is closed last, so that a crash forgets none that runs."""
    child, entry = observation.trial_job, recorded(observation.job.status, StageName.TRIAL)
    if child is not None and child.deleting:
        return Wait(reason="DeletingTrial", message=f"trial {child.name} is being deleted: {why}", requeue=SOON)
    if child is not None and child.status.finished is None:
        return RemoveTrial(trial=child)
    if entry is None or entry.phase is not StagePhase.RUNNING:
        return None
    return CloseStage(
        stage=StageName.TRIAL, key="", phase=StagePhase.STOPPED, result="Stopped", message=why, counts=False
    )


def _why(child: PPOJob) -> str:
    failed = next((item for item in child.status.conditions if item.type is ConditionType.FAILED), None)
    return f"{failed.reason}: {failed.message}" if failed is not None else "failed"


def trial_spec(spec: PPOJobSpec, wanted: Trial) -> dict[str, Any]:
    """The job's spec with few steps on few devices; whatever a guardrail would have rolled back or paused fails."""
    cluster: dict[str, Any] = {"nodes": 1, "devices_per_node": wanted.devices_per_node}
    if wanted.resources is not None:
        cluster["resources"] = wanted.resources
    parallel = math.gcd(spec.rollout.tensor_parallel_size, wanted.devices_per_node)
    changed = {
        "suspend": False,
        "restart": None,
        "ttl_seconds_after_finished": None,
        "trial": None,
        "evaluation": None,
        "export": None,
        "cluster": spec.cluster.model_copy(update=cluster),
        "rollout": spec.rollout.model_copy(update={"tensor_parallel_size": parallel}),
        "training": spec.training.model_copy(update={"total_steps": wanted.steps}),
        "checkpoints": spec.checkpoints.model_copy(update={"every_steps": wanted.steps, "resume_from": None}),
        "rollback": spec.rollback.model_copy(update={"limit": 0, "on_exhausted": OnExhausted.FAIL}),
        "guardrails": [_guardrail(item, wanted.steps) for item in spec.guardrails],
        "data": spec.data.model_copy(update={"prepare": _fewer_rows(spec, wanted)}),
        "reward": spec.reward.model_copy(update={"terms": _shorter(spec, wanted)}),
    }
    return spec.model_copy(update=changed).model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude_defaults=True
    )


def _guardrail(item: Guardrail, steps: int) -> Guardrail:
    """Judged early enough to be breached in so few steps, if its count allows it at all; one that is dry stays so."""
    changed: dict[str, Any] = {"action": GuardrailAction.FAIL} if item.action in _ENDS else {}
    guards = tuple(expand(item))
    latest = max(0, steps - max(guard.count for guard in guards))
    if any(guard.after_step > latest for guard in guards):
        changed["after_step"] = latest
    return item.model_copy(update=changed)


def _fewer_rows(spec: PPOJobSpec, wanted: Trial) -> Any:
    prepare = spec.data.prepare
    if prepare is None:
        return None
    fewer = [
        item.model_copy(update={"max_rows": min(item.max_rows or wanted.max_rows, wanted.max_rows)})
        for item in prepare.sources
    ]
    return prepare.model_copy(update={"sources": fewer})


def _shorter(spec: PPOJobSpec, wanted: Trial) -> list[Any]:
    """A reward model of so few steps is not measured."""
    return [
        term
        if term.training is None
        else term.model_copy(
            update={"training": term.training.model_copy(update={"max_steps": wanted.steps, "minimum_accuracy": None})}
        )
        for term in spec.reward.terms
    ]
