"""A status that a decision changes, and what of it is another afterwards."""

from datetime import timedelta
from typing import Any

from tests.support.builders import NOW, raw_spec
from tests.support.observations import attempt, observation

from ppojob_contract.outcomes import ExitClass
from ppojob_contract.parameters import Parameter
from ppojob_operator.api.v1alpha1.data_status import DataPlanStatus
from ppojob_operator.api.v1alpha1.status import (
    GuardrailStatus,
    Intent,
    IntentKind,
    ParameterValue,
    PausedBy,
    PPOJobStatus,
    ResumePoint,
    Verdict,
)
from ppojob_operator.domain.decisions import (
    Decision,
)
from ppojob_operator.domain.transitions import decided

SPEC = raw_spec()
ACCEPTED = observation(PPOJobStatus(), spec=SPEC).accepted
EARLIER, LATER = NOW - timedelta(seconds=50), NOW - timedelta(seconds=20)
POINT = ResumePoint(attempt=1, step=10)
ADJUSTED = [ParameterValue(parameter=Parameter.LEARNING_RATE, value=1e-4, spec_value=1e-3)]
DATA = DataPlanStatus(reshuffle=1)
BAD = [GuardrailStatus(name="kl", verdict=Verdict.BREACHED)]
PAUSED = PausedBy(guardrail="kl", reason="GuardrailBreached", attempt=1, step=17, since=EARLIER)


def intent(kind: IntentKind = IntentKind.ROLLBACK, **fields: Any) -> Intent:
    values: dict[str, Any] = {"since": EARLIER, "reason": "GuardrailBreached", "message": "kl is bad", "attempt": 1}
    return Intent(id="rollback-1-1", kind=kind, **(values | fields))


def after(decision: Decision, **fields: Any) -> tuple[PPOJobStatus, dict[str, Any]]:
    """The status before, and what of it is another afterwards."""
    before = PPOJobStatus(**fields)
    then = decided(observation(before, spec=SPEC), before, decision)
    names = PPOJobStatus.model_fields
    return before, {name: getattr(then, name) for name in names if getattr(then, name) != getattr(before, name)}


def changed(decision: Decision, **fields: Any) -> dict[str, Any]:
    return after(decision, **fields)[1]


def running(**fields: Any) -> dict[str, Any]:
    """A status in which everything that a transition may empty is full."""
    status: dict[str, Any] = {
        "attempt": attempt(),
        "intent": intent(resume=POINT, next_attempt=2, data=DATA, adjustments=ADJUSTED),
        "cluster_number": 1,
        "outcome": ExitClass.HANG,
        "paused_by": PAUSED,
        "guardrails": BAD,
    }
    return status | fields
