"""What a breach leads to, whenever it is found: also in an attempt that has ended for another reason meanwhile."""

from ppojob_operator.api.v1alpha1.status import IntentKind, RollbackPath
from ppojob_operator.domain.counters import rollbacks_without_progress
from ppojob_operator.domain.data_plan import after_breach, describe
from ppojob_operator.domain.decisions import Begin, Decision
from ppojob_operator.domain.hot import possible
from ppojob_operator.domain.intent import intent
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.observation import Observation
from ppojob_operator.domain.parameters import adjusted
from ppojob_operator.domain.targets import rollback_target


def roll_back(
    observation: Observation, accepted: AcceptedJob, judgement: Judgement, *, replace_cluster: bool = False
) -> Decision | None:
    """Begins a rollback, or the end where none is possible; None where nothing was breached."""
    breach = judgement.breach
    if breach is None:
        return None
    status, limit = observation.job.status, accepted.spec.rollback.limit
    what = f"guardrail {breach.guardrail.name}: {breach.summary}"
    target = rollback_target(status, judgement, breach)
    if target is None:
        return fail(
            observation,
            "NoConfirmedCheckpoint",
            f"{what}, and no checkpoint was confirmed before; lower spec.checkpoints.everySteps or confirmSteps, or "
            "raise the guardrail's afterStep",
            guardrail=breach.guardrail.name,
        )
    rollbacks = rollbacks_without_progress(status, judgement)
    if rollbacks >= limit:
        return fail(
            observation,
            "RollbacksExhausted",
            f"{what}; {rollbacks} rollbacks brought no later confirmed checkpoint (spec.rollback.limit is {limit})",
            guardrail=breach.guardrail.name,
        )
    data = after_breach(status, accepted, breach)
    return Begin(
        intent=intent(
            observation,
            IntentKind.ROLLBACK,
            reason="GuardrailBreached",
            message=f"{what}; back to step {target.step} of attempt {target.attempt}; "
            + describe(accepted.spec.rollback.data, data),
            guardrail=breach.guardrail.name,
            step=breach.step,
            resume=target,
            adjustments=adjusted(accepted.spec, status.adjustments),
            data=data,
            replace_cluster=replace_cluster,
            path=RollbackPath.HOT if possible(observation, accepted, judgement) else RollbackPath.COLD,
        )
    )


def fail(observation: Observation, reason: str, message: str, *, guardrail: str | None = None) -> Decision:
    """Begins the end of the job."""
    return Begin(
        intent=intent(
            observation, IntentKind.FAIL, reason=reason, message=message, guardrail=guardrail, replace_cluster=True
        )
    )
