"""What a breach leads to, whenever it is found: also in an attempt that has ended for another reason meanwhile."""

from ppojob_operator.api.v1alpha1.guardrails import GuardrailAction, OnExhausted
from ppojob_operator.api.v1alpha1.status import IntentKind, RollbackPath
from ppojob_operator.domain.counters import rollbacks_without_progress
from ppojob_operator.domain.data_plan import after_breach, describe
from ppojob_operator.domain.decisions import Begin, Decision
from ppojob_operator.domain.guardrails.episodes import Breach
from ppojob_operator.domain.hot import possible
from ppojob_operator.domain.intent import intent
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.observation import Observation
from ppojob_operator.domain.parameters import adjusted
from ppojob_operator.domain.pause import acknowledged
from ppojob_operator.domain.targets import rollback_target


def act_on_breach(observation: Observation, accepted: AcceptedJob, judgement: Judgement) -> Decision | None:
    """Begins what the first breach calls for; None where nothing was breached, or a person has chosen to go on."""
    breach, attempt = judgement.breach, observation.job.status.attempt
    if breach is None or attempt is None or acknowledged(observation.job.status, attempt.number):
        return None
    match breach.guardrail.action:
        case GuardrailAction.FAIL:
            return fail(observation, "GuardrailBreached", in_words(breach), guardrail=breach.guardrail.name)
        case GuardrailAction.PAUSE:
            return pause(observation, "GuardrailBreached", breach, in_words(breach))
        case _:
            return _roll_back(observation, accepted, judgement, breach)


def in_words(breach: Breach) -> str:
    return f"guardrail {breach.guardrail.name}: {breach.summary}"


def _roll_back(observation: Observation, accepted: AcceptedJob, judgement: Judgement, breach: Breach) -> Decision:
    status, policy, what = observation.job.status, accepted.spec.rollback, in_words(breach)
    target = rollback_target(status, judgement, breach, policy.min_healthy_steps)
    if target is None:
        message = (
            f"{what}, and no checkpoint was confirmed before; lower spec.checkpoints.everySteps or confirmSteps, or "
            "raise the guardrail's afterStep"
        )
        return _exhausted(observation, accepted, breach, "NoConfirmedCheckpoint", message)
    rollbacks = rollbacks_without_progress(status, judgement)
    if rollbacks >= policy.limit:
        message = (
            f"{what}; {rollbacks} rollbacks brought no later confirmed checkpoint (spec.rollback.limit is "
            f"{policy.limit})"
        )
        return _exhausted(observation, accepted, breach, "RollbacksExhausted", message)
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
            path=RollbackPath.HOT if possible(observation, accepted, judgement) else RollbackPath.COLD,
        )
    )


def _exhausted(observation: Observation, accepted: AcceptedJob, breach: Breach, reason: str, message: str) -> Decision:
    if accepted.spec.rollback.on_exhausted is OnExhausted.PAUSE:
        return pause(observation, reason, breach, message)
    return fail(observation, reason, message, guardrail=breach.guardrail.name)


def pause(observation: Observation, reason: str, breach: Breach, message: str) -> Decision:
    """Begins a suspension that a person has to end."""
    return Begin(
        intent=intent(
            observation,
            IntentKind.SUSPEND,
            reason=reason,
            message=message,
            guardrail=breach.guardrail.name,
            step=breach.step,
            replace_cluster=True,
        )
    )


def fail(observation: Observation, reason: str, message: str, *, guardrail: str | None = None) -> Decision:
    """Begins the end of the job."""
    return Begin(
        intent=intent(
            observation, IntentKind.FAIL, reason=reason, message=message, guardrail=guardrail, replace_cluster=True
        )
    )
