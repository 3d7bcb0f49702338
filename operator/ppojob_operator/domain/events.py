"""Events: one for each transition a person would want to know of. Reasons are listed in docs/events.md."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ppojob_contract.mailbox import CheckpointRef
from ppojob_operator.api.v1alpha1.guardrails import GuardrailAction
from ppojob_operator.api.v1alpha1.stage_status import StagePhase
from ppojob_operator.api.v1alpha1.status import (
    CheckpointPhase,
    ConditionStatus,
    ConditionType,
    IntentKind,
    ParameterValue,
    PPOJobStatus,
    RollbackPath,
)
from ppojob_operator.domain.decisions import (
    CLAIM_NOT_FOUND,
    Begin,
    CloseStage,
    CreateCluster,
    Decision,
    Finish,
    GoCold,
    Settle,
    StartStage,
    StartTrial,
)
from ppojob_operator.domain.guardrails.episodes import Breach
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.observation import Observation, Trouble
from ppojob_operator.domain.pause import HOW_TO_GO_ON, paused
from ppojob_operator.domain.pipeline.again import TAKEN_UP
from ppojob_operator.domain.pipeline.recorded import recorded
from ppojob_operator.domain.retention import never_deleted
from ppojob_operator.domain.source import begins

NORMAL, WARNING = "Normal", "Warning"

_TROUBLES = {CLAIM_NOT_FOUND, *Trouble}

_BEGUN = {
    IntentKind.ROLLBACK: (WARNING, "RollbackStarted"),
    IntentKind.RESTART: (WARNING, "Restarting"),
    IntentKind.SPEC_CHANGE: (NORMAL, "SpecChanged"),
    IntentKind.SUSPEND: (NORMAL, "Suspending"),
    IntentKind.FAIL: (WARNING, "Failing"),
    IntentKind.COMPLETE: (NORMAL, "TrainingDone"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A Kubernetes event about the PPOJob."""

    type: str
    """Normal or Warning."""
    reason: str
    message: str


def events(
    observation: Observation, judgement: Judgement, decision: Decision, status: PPOJobStatus
) -> tuple[Event, ...]:
    """What changed from the observed status to the new one."""
    old = observation.job.status
    return (
        *_acceptance(old, status),
        *_trouble(old, status),
        *_decision(observation, decision),
        *_attempt(old, status),
        *_dataset(old, status),
        *_checkpoints(old, status),
        *_guardrails(old, judgement),
        *_health(old, status),
        *_rewards(old, status),
    )


def _condition(status: PPOJobStatus, kind: ConditionType) -> tuple[ConditionStatus, str, str] | None:
    return next(((item.status, item.reason, item.message) for item in status.conditions if item.type is kind), None)


def _acceptance(old: PPOJobStatus, new: PPOJobStatus) -> Iterator[Event]:
    before, after = _condition(old, ConditionType.ACCEPTED), _condition(new, ConditionType.ACCEPTED)
    if after is None or before == after:
        return
    refused = after[0] is ConditionStatus.FALSE
    warned = refused or after[1] == "AcceptedWithWarnings"
    yield Event(type=WARNING if warned else NORMAL, reason=after[1], message=after[2] or "the spec was accepted")


def _trouble(old: PPOJobStatus, new: PPOJobStatus) -> Iterator[Event]:
    """Once for each kind: the message of a pod that waits changes from minute to minute."""
    before, after = _condition(old, ConditionType.CLUSTER_READY), _condition(new, ConditionType.CLUSTER_READY)
    if after is None or after[1] not in _TROUBLES or (before is not None and before[1] == after[1]):
        return
    yield Event(type=WARNING, reason=after[1], message=after[2])


def _decision(observation: Observation, decision: Decision) -> Iterator[Event]:
    match decision:
        case Begin(intent=intent) if intent.kind is IntentKind.SUSPEND and intent.guardrail is not None:
            yield Event(type=WARNING, reason="Pausing", message=intent.message)
        case Begin(intent=intent) if intent.reason == TAKEN_UP:
            yield Event(type=NORMAL, reason="TakenUpAgain", message=intent.message)
        case Begin(intent=intent):
            kind, reason = _BEGUN[intent.kind]
            yield Event(type=kind, reason=reason, message=intent.message)
        case StartStage() | CloseStage() | StartTrial():
            yield from _stage(observation, decision)
        case CreateCluster(number=number) if observation.job.status.cluster_number != number:
            yield Event(type=NORMAL, reason="ClusterCreated", message=f"RayCluster c{number} is created")
        case GoCold(message=message):
            yield Event(type=NORMAL, reason="RollbackCold", message=f"the trainer is started anew: {message}")
        case Settle():
            how = HOW_TO_GO_ON if paused(observation.job.status) else "spec.suspend: false goes on"
            yield Event(type=NORMAL, reason="Suspended", message=f"nothing runs; {how}")
        case Finish(succeeded=True, message=message):
            yield Event(type=NORMAL, reason="Succeeded", message=message)
        case Finish(reason=reason, message=message):
            yield Event(type=WARNING, reason="Failed", message=f"{reason}: {message}")
        case _:
            return


def _stage(observation: Observation, decision: StartStage | CloseStage | StartTrial) -> Iterator[Event]:
    match decision:
        case StartStage(stage=stage, run=run):
            before = recorded(observation.job.status, stage)
            if before is None or before.run != run:
                yield Event(type=NORMAL, reason="StageStarted", message=f"stage {stage.value}, run {run}")
        case StartTrial(run=run):
            yield Event(type=NORMAL, reason="StageStarted", message=f"stage Trial, run {run}: a PPOJob of its own")
        case CloseStage(stage=stage, phase=StagePhase.SUCCEEDED, message=message):
            yield Event(type=NORMAL, reason="StageSucceeded", message=f"stage {stage.value}: {message}")
        case CloseStage(stage=stage, phase=StagePhase.STOPPED, message=message):
            yield Event(type=NORMAL, reason="StageStopped", message=f"stage {stage.value}: {message}")
        case CloseStage(stage=stage, result=result, message=message):
            yield Event(type=WARNING, reason="StageRetried", message=f"stage {stage.value}: {result}: {message}")


def _attempt(old: PPOJobStatus, new: PPOJobStatus) -> Iterator[Event]:
    before, after = old.attempt, new.attempt
    if after is None:
        return
    if before is None or before.number != after.number:
        source = begins(after)
        where = " in the running trainer" if after.path is RollbackPath.HOT else ""
        yield Event(
            type=NORMAL,
            reason="AttemptStarted",
            message=f"attempt {after.number} starts {source}{where}{_with(new.adjustments)}",
        )
        if after.data_anew:
            shuffled = after.cause is IntentKind.ROLLBACK and after.data.reshuffle
            why = "the data is shuffled anew" if shuffled else "data or batchSize changed"
            message = f"attempt {after.number} begins at the beginning of its data's order: {why}"
            yield Event(type=NORMAL, reason="DataOrderBegins", message=message)
    elif before.first_step is None and after.first_step is not None:
        seconds = (after.first_step - after.created).total_seconds()
        yield Event(
            type=NORMAL,
            reason="FirstStep",
            message=f"attempt {after.number} finished its first step {seconds:.0f} s after it was started",
        )


def _dataset(old: PPOJobStatus, new: PPOJobStatus) -> Iterator[Event]:
    """Files that were rewritten under the run: the attempt that its checkpoint is from had read something else."""
    after, before = new.attempt, old.attempt
    if after is None or after.dataset_digest is None or after.resume is None:
        return
    if before is not None and before.number == after.number and before.dataset_digest is not None:
        return
    origin = next((item for item in new.attempts if item.number == after.resume.attempt), None)
    if origin is None or origin.dataset_digest is None or origin.training_hash != after.training_hash:
        return
    if origin.dataset_digest != after.dataset_digest:
        message = f"attempt {after.number} reads other data than attempt {origin.number} did, from the same paths"
        yield Event(type=WARNING, reason="DatasetChanged", message=message)


def _with(adjustments: list[ParameterValue]) -> str:
    if not adjustments:
        return ""
    return " with " + ", ".join(f"{item.parameter.value} {item.value:g}" for item in adjustments)


def _checkpoints(old: PPOJobStatus, new: PPOJobStatus) -> Iterator[Event]:
    known = {(item.attempt, item.step): item.phase for item in old.checkpoints.items}
    for item in new.checkpoints.items:
        before = known.get((item.attempt, item.step))
        if item.phase is CheckpointPhase.CONFIRMED and before is not CheckpointPhase.CONFIRMED:
            yield Event(
                type=NORMAL,
                reason="CheckpointConfirmed",
                message=f"the checkpoint of step {item.step} (attempt {item.attempt}) proved itself",
            )
        if item.phase is CheckpointPhase.UNUSABLE and before not in {None, CheckpointPhase.UNUSABLE}:
            yield Event(
                type=WARNING,
                reason="CheckpointUnusable",
                message=f"the checkpoint of step {item.step} (attempt {item.attempt}) cannot be loaded: {item.message}",
            )
    present = {(item.attempt, item.step) for item in new.checkpoints.items}
    for item in never_deleted(old.checkpoints.items):
        if (item.attempt, item.step) not in present:
            yield Event(
                type=WARNING,
                reason="CheckpointUnusable",
                message=f"the checkpoint of step {item.step} (attempt {item.attempt}) is gone; the operator did not "
                "delete it",
            )


def deleted(checkpoints: Sequence[CheckpointRef], observation: Observation) -> Event:
    """Told once it has happened: the one event that is not a turn of the status."""
    state = observation.monitor.state
    sizes = {item.ref: item.size_bytes for item in state.checkpoints} if state else {}
    steps: dict[int, list[str]] = {}
    for ref in checkpoints:
        steps.setdefault(ref.attempt, []).append(str(ref.step))
    named = "; ".join(f"{', '.join(each)} (attempt {attempt})" for attempt, each in steps.items())
    size = sum(sizes.get(ref, 0) for ref in checkpoints) / 1e9
    return Event(
        type=NORMAL,
        reason="CheckpointsDeleted",
        message=f"checkpoints of steps {named}, {size:.3g} GB, are not needed any more",
    )


def _guardrails(old: PPOJobStatus, judgement: Judgement) -> Iterator[Event]:
    """One for each episode behind what was judged before: a query's result may come long after its row."""
    known = {item.name: item.step or 0 for item in old.guardrails}
    for item in judgement.assessments:
        for episode in item.episodes:
            if episode.step > known.get(item.guardrail.name, 0):
                yield _breached(episode)


_WOULD = {
    GuardrailAction.ROLLBACK: "be rolled back",
    GuardrailAction.PAUSE: "be paused",
    GuardrailAction.FAIL: "be failed",
}


def _rewards(old: PPOJobStatus, new: PPOJobStatus) -> Iterator[Event]:
    known = {(item.attempt, item.term) for item in old.reward_failures}
    for item in new.reward_failures:
        if (item.attempt, item.term) not in known:
            message = f"term {item.term} failed at step {item.step} of attempt {item.attempt}: {item.message}"
            yield Event(type=WARNING, reason="RewardFailed", message=message)


def _breached(breach: Breach) -> Event:
    guardrail, what = breach.guardrail, f"guardrail {breach.guardrail.name}: {breach.summary}"
    if guardrail.dry_run and guardrail.action in _WOULD:
        would = _WOULD[guardrail.action]
        return Event(
            type=WARNING,
            reason=f"{guardrail.action.value}DryRun",
            message=f"{what}; the run would {would} (dryRun is true)",
        )
    return Event(type=WARNING, reason="GuardrailBreached", message=what)


def _health(old: PPOJobStatus, new: PPOJobStatus) -> Iterator[Event]:
    before, after = _condition(old, ConditionType.HEALTHY), _condition(new, ConditionType.HEALTHY)
    if before is None or after is None or before[1] == after[1]:
        return
    if after[0] is ConditionStatus.UNKNOWN and after[1] != "Waiting":
        yield Event(type=WARNING, reason=after[1], message=after[2])
