"""A job that failed in a stage after training is taken up again where the spec asks for something else of it."""

from ppojob_operator.api.v1alpha1.spec import PPOJobSpec
from ppojob_operator.api.v1alpha1.stage_status import FailedAfterTraining, StageName, StagePhase
from ppojob_operator.api.v1alpha1.status import IntentKind, PPOJobStatus
from ppojob_operator.domain.decisions import Begin
from ppojob_operator.domain.hashes import hash_of
from ppojob_operator.domain.intent import intent
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.observation import Observation
from ppojob_operator.domain.pipeline.recorded import recorded, with_stage

TAKEN_UP = "TakenUpAgain"
"""Reason of the intent."""


def asked_for(spec: PPOJobSpec) -> FailedAfterTraining:
    """Of the stages after training."""
    evaluation = spec.evaluation.model_copy(update={"gate": None}) if spec.evaluation else None
    return FailedAfterTraining(
        evaluation=hash_of({"evaluation": evaluation}),
        asked=hash_of({"evaluation": spec.evaluation, "export": spec.export, "restart": spec.restart}),
    )


def take_up(observation: Observation, accepted: AcceptedJob) -> Begin | None:
    """Of a job that has ended; None where nothing else is asked for than what failed."""
    failed = observation.job.status.failed_after_training
    if failed is None or failed.asked == asked_for(accepted.spec).asked:
        return None
    return Begin(
        intent=intent(
            observation,
            IntentKind.COMPLETE,
            reason=TAKEN_UP,
            message=f"all {accepted.spec.training.total_steps} steps are done; what comes after is taken up again",
            replace_cluster=True,
        )
    )


def taken_up(status: PPOJobStatus, accepted: AcceptedJob) -> PPOJobStatus:
    """As if training had just ended: stages that are finished stay so, but for an evaluation that was edited."""
    failed, spec = status.failed_after_training, accepted.spec
    assert failed is not None, "only what failed is taken up again"
    nonce = spec.restart.nonce if spec.restart else status.observed_restart_nonce
    ended = {"finished": None, "outcome": None, "failed_after_training": None, "observed_restart_nonce": nonce}
    status = status.model_copy(update=ended)
    for name in (StageName.EVALUATE, StageName.EXPORT):
        entry = recorded(status, name)
        if entry is None:
            continue
        edited = name is StageName.EVALUATE and failed.evaluation != asked_for(spec).evaluation
        phase = StagePhase.STOPPED if edited else entry.phase
        status = with_stage(status, entry.model_copy(update={"phase": phase, "failures": 0}))
    return status
