"""A new intent: what is about to be done, recorded before its first effect."""

from collections.abc import Sequence

from ppojob_operator.api.v1alpha1.data_status import DataPlanStatus
from ppojob_operator.api.v1alpha1.status import (
    Intent,
    IntentKind,
    ParameterValue,
    ResumePoint,
    RollbackPath,
)
from ppojob_operator.domain.observation import Observation

NEXT_ATTEMPT = frozenset({IntentKind.ROLLBACK, IntentKind.RESTART, IntentKind.SPEC_CHANGE})


def intent(
    observation: Observation,
    kind: IntentKind,
    *,
    reason: str,
    message: str,
    step: int | None = None,
    resume: ResumePoint | None = None,
    adjustments: Sequence[ParameterValue] = (),
    guardrail: str | None = None,
    replace_cluster: bool = False,
    path: RollbackPath | None = None,
    data: DataPlanStatus | None = None,
) -> Intent:
    """A new intent about the current attempt. Its id names it for ever: kind and the attempt that it ends."""
    attempt = observation.job.status.attempt
    number = attempt.number if attempt and attempt.ended is None else 0
    last = attempt.number if attempt else 0
    return Intent(
        id=f"{kind.value.lower()}-{number or last}-{observation.job.generation}",
        kind=kind,
        since=observation.now,
        reason=reason,
        message=message[:4096],
        attempt=number,
        step=step if step is not None else (attempt.last_step or 0 if attempt else 0),
        guardrail=guardrail,
        replace_cluster=replace_cluster,
        path=path,
        next_attempt=last + 1 if kind in NEXT_ATTEMPT else None,
        resume=resume,
        adjustments=list(adjustments),
        data=data or DataPlanStatus(),
    )
