"""The status that records a pass: what was observed, and the decision before its effect."""

from collections.abc import Sequence
from datetime import timedelta

from ppojob_contract.layout import job_folder
from ppojob_contract.protocol import StepRow
from ppojob_operator.api.v1alpha1.status import (
    AttemptStatus,
    CheckpointPhase,
    Checkpoints,
    CheckpointStatus,
    EvaluatedThrough,
    Metrics,
    PPOJobStatus,
    Progress,
)
from ppojob_operator.domain.best import best_checkpoints
from ppojob_operator.domain.conditions import conditions
from ppojob_operator.domain.counters import rollbacks_without_progress
from ppojob_operator.domain.decisions import (
    Decision,
)
from ppojob_operator.domain.goodput import goodput
from ppojob_operator.domain.guardrails.status import guardrail_status
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.observation import Observation, silent
from ppojob_operator.domain.pace import median_step_seconds
from ppojob_operator.domain.pause import paused, released
from ppojob_operator.domain.phase import phase, stage, summary
from ppojob_operator.domain.pipeline.transitions import stages_seen
from ppojob_operator.domain.requested import can_be_done
from ppojob_operator.domain.reward_failures import reward_failures
from ppojob_operator.domain.targets import checkpoints, newest
from ppojob_operator.domain.transitions import decided

MAX_CHECKPOINTS = 50


def record(observation: Observation, judgement: Judgement, decision: Decision) -> PPOJobStatus:
    """The next status. Phase, message and conditions are derived from the rest, last."""
    status = stages_seen(observation, _observed(observation, judgement))
    status = decided(observation, status, decision)
    status = status.model_copy(
        update={
            "goodput": goodput(observation, status),
            "phase": phase(observation, status),
            "stage": stage(status),
            "message": summary(status, decision),
        }
    )
    return status.model_copy(update={"conditions": conditions(observation, judgement, decision, status)})


def _observed(observation: Observation, judgement: Judgement) -> PPOJobStatus:
    status = observation.job.status
    update: dict[str, object] = {"observed_generation": observation.job.generation}
    cluster = observation.cluster(status.cluster_number)
    if cluster is not None:
        update["cluster_uid"] = cluster.uid
    if observation.accepted is not None:
        update["storage_path"] = _storage_path(observation.accepted)
        by_hand = observation.accepted.spec.suspend or can_be_done(status, observation.accepted, judgement)
        if paused(status) and by_hand:
            status = status.model_copy(update={"paused_by": released(status.paused_by), "rollbacks_since_progress": 0})
    if observation.accepted is None or status.attempt is None or status.finished is not None:
        return status.model_copy(update=update)
    attempt = _seen(observation, judgement, status.attempt)
    update["attempt"] = attempt
    update["checkpoints"] = _checkpoints(observation, judgement)
    if judgement.last_row is not None or attempt.first_step is None or silent(observation.monitor):
        unseen = silent(observation.monitor) and attempt.ended is None and attempt.first_step is not None
        silence = f"no figures: {observation.monitor.message}" if unseen else ""
        update["guardrails"] = [guardrail_status(item, observation.queries, silence) for item in judgement.assessments]
    update["reward_failures"] = reward_failures(
        attempt.number, observation.monitor.rows.get(attempt.number), status.reward_failures
    )
    if judgement.last_row is not None:
        rows = observation.monitor.rows.get(attempt.number, ())
        update["evaluated_through"] = EvaluatedThrough(attempt=attempt.number, step=judgement.last_row.step)
        update["metrics"] = _metrics(judgement.last_row)
        update["progress"] = _progress(observation, judgement.last_row.step, rows)
    if judgement.attempt_state and judgement.attempt_state.outcome:
        update["outcome"] = judgement.attempt_state.outcome.exit_class
    update["rollbacks_since_progress"] = rollbacks_without_progress(status, judgement)
    return status.model_copy(update=update)


def _storage_path(accepted: AcceptedJob) -> str:
    folder = job_folder(accepted.namespace, accepted.name, accepted.uid)
    return "/".join(filter(None, [accepted.spec.storage.path, folder]))


def _seen(observation: Observation, judgement: Judgement, attempt: AttemptStatus) -> AttemptStatus:
    if attempt.ended is not None:
        return attempt
    update: dict[str, object] = {}
    job = observation.ray_job(attempt.carrier)
    if job is not None:
        update["job_uid"] = job.uid
        if job.ended and attempt.driver_ended is None:
            update["driver_ended"] = observation.now
    if judgement.attempt_state is not None and judgement.attempt_state.dataset_digest is not None:
        update["dataset_digest"] = judgement.attempt_state.dataset_digest
    if judgement.last_row is not None:
        update["last_step"] = judgement.last_row.step
        if attempt.first_step is None:
            update["first_step"] = observation.now
    return attempt.model_copy(update=update)


def _checkpoints(observation: Observation, judgement: Judgement) -> Checkpoints:
    status, accepted = observation.job.status, observation.accepted
    if judgement.checkpoints is None or accepted is None:
        return status.checkpoints
    best = best_checkpoints(accepted.spec.checkpoints.keep_best, judgement.checkpoints, observation.monitor.rows)
    items = sorted(checkpoints(status, judgement), key=lambda item: (item.step, item.attempt))
    return Checkpoints(
        confirmed=newest(status, judgement, CheckpointPhase.CONFIRMED),
        best=best[0] if best else None,
        items=_bounded(items, MAX_CHECKPOINTS),
    )


def _bounded(items: Sequence[CheckpointStatus], limit: int) -> list[CheckpointStatus]:
    """The newest ones, Confirmed ones before others."""
    by_worth = sorted(items, key=lambda item: (item.phase is CheckpointPhase.CONFIRMED, item.step, item.attempt))
    return sorted(by_worth[-limit:], key=lambda item: (item.step, item.attempt))


def _metrics(row: StepRow) -> Metrics:
    def text(name: str) -> str | None:
        value = row.values.get(name)
        return None if value is None else f"{value:.6g}"

    return Metrics(
        reward_mean=text("rewardMean"),
        reward_std=text("rewardStd"),
        kl=text("kl"),
        gradient_norm=text("gradNorm"),
        response_length_mean=text("responseLengthMean"),
        tokens_per_second=text("tokensPerSecond"),
    )


def _progress(observation: Observation, step: int, rows: Sequence[StepRow]) -> Progress:
    accepted, before = observation.accepted, observation.job.status.progress
    assert accepted is not None, "rows exist for accepted jobs only"
    total = accepted.spec.training.total_steps
    pace, completion = median_step_seconds(rows), None
    if pace is not None and step < total:
        completion = observation.now + timedelta(seconds=round(pace * (total - step)))
    unchanged = before is not None and before.step == step
    return Progress(
        step=step,
        total_steps=total,
        percent=min(100, 100 * step // total),
        last_step_time=before.last_step_time if unchanged and before else observation.now,
        estimated_completion=before.estimated_completion if unchanged and before else completion,
    )
