"""Alerts. Each is about something a person should do; what, stands on its page in docs/runbooks."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ppojob_contract import metrics as m
from ppojob_operator.api.v1alpha1.status import CheckpointPhase, ConditionStatus, ConditionType, Phase, Verdict
from ppojob_operator.codegen.monitoring import queries as q
from ppojob_operator.codegen.monitoring import records
from ppojob_operator.codegen.monitoring.promql import by_job, series, unless, when
from ppojob_operator.job_series import VERDICT_VALUES

RUNNING = q.phase(Phase.RUNNING)
ACTIVE = q.phase(*(phase for phase in Phase if phase not in {Phase.SUCCEEDED, Phase.FAILED, Phase.INVALID}))
ON_THE_WAY = q.phase(Phase.PENDING, Phase.PROVISIONING, Phase.ROLLING_BACK, Phase.RESTARTING)
ROLLBACKS_EXHAUSTED = "RollbacksExhausted"

_JOB = "{{ $labels.namespace }}/{{ $labels.ppojob }}"
_VALUE = '{{ printf "%.3g" $value }}'


class Severity(StrEnum):
    """Whom it wakes."""

    CRITICAL = "critical"
    """Somebody now: devices are held for nothing, or nothing is looked after."""
    WARNING = "warning"
    """Somebody today."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """`hold` is Prometheus' `for`."""

    name: str
    expression: str
    hold: str
    severity: Severity
    summary: str
    """Names the job and the figure."""
    description: str
    """One sentence: what it means."""


_EXHAUSTED = f'reason="{ROLLBACKS_EXHAUSTED}"'


def _condition(kind: ConditionType, status: ConditionStatus, *matchers: str) -> str:
    return by_job(series(m.CONDITION, *matchers, condition=kind, status=status), "reason")


_BREACHED = (
    f"({q.growth(m.BREACHES, '5m', by=('guardrail',))} > 0)"
    f" or ({by_job(series(m.VERDICT), 'guardrail')} == {VERDICT_VALUES[Verdict.BREACHED]})"
)
_SILENT = q.seconds_since_last_step()
_DUE = f"3 * ({by_job(series(m.CHECKPOINT_INTERVAL))} + {by_job(series(m.CONFIRMATION_WINDOW))})"
_SAVE_FAILED = f"{q.newest(CheckpointPhase.UNUSABLE)} > ({q.newest(CheckpointPhase.COMPLETE)} or {q.step()} * 0)"
_SAVE_OVERDUE = f"{records.UNSAVED.name} > 2 * {by_job(series(m.CHECKPOINT_INTERVAL))}"

JOB_ALERTS: Final = (
    Alert(
        name="PPOJobGuardrailBreached",
        expression=when(_BREACHED, ACTIVE),
        hold="0s",
        severity=Severity.WARNING,
        summary=f"{_JOB}: guardrail {{{{ $labels.guardrail }}}} is breached",
        description="A figure was beyond the guardrail's bound for as long as it allows.",
    ),
    Alert(
        name="PPOJobRolledBack",
        expression=f"{q.growth(m.JOB_ROLLBACKS, '15m')} > 0",
        hold="0s",
        severity=Severity.WARNING,
        summary=f"{_JOB} was rolled back; in the last 15 minutes: {{{{ $value }}}}",
        description="A guardrail was breached, and the run went back to its newest confirmed checkpoint.",
    ),
    Alert(
        name="PPOJobRollbacksExhausted",
        expression=f"{_condition(ConditionType.FAILED, ConditionStatus.TRUE, _EXHAUSTED)}"
        f" or {by_job(series(m.PAUSED, _EXHAUSTED), 'reason')}",
        hold="0s",
        severity=Severity.CRITICAL,
        summary=f"{_JOB} has used up its rollbacks",
        description="Rolling back did not help as often as spec.rollback.limit allows; the job has ended or is paused.",
    ),
    Alert(
        name="PPOJobPaused",
        expression=by_job(series(m.PAUSED, f'reason!="{ROLLBACKS_EXHAUSTED}"'), "reason"),
        hold="0s",
        severity=Severity.WARNING,
        summary=f"{_JOB} is paused and waits for somebody: {{{{ $labels.reason }}}}",
        description="A guardrail with action Pause was breached; the devices are given back until a person decides.",
    ),
    Alert(
        name="PPOJobFailed",
        expression=_condition(ConditionType.FAILED, ConditionStatus.TRUE, f'reason!="{ROLLBACKS_EXHAUSTED}"'),
        hold="0s",
        severity=Severity.CRITICAL,
        summary=f"{_JOB} has failed: {{{{ $labels.reason }}}}",
        description="The job has ended without having done all that it was to do, and will not go on by itself.",
    ),
    Alert(
        name="PPOJobNoStep",
        expression=unless(
            when(f"{_SILENT} > 600 and {_SILENT} > 10 * {records.STEP_SECONDS.name}", RUNNING), q.all_steps_done()
        ),
        hold="5m",
        severity=Severity.CRITICAL,
        summary=f"{_JOB}: no step for {{{{ $value | humanizeDuration }}}}",
        description="The job runs, but its last step is ten minutes and ten mean steps ago.",
    ),
    Alert(
        name="PPOJobNotJudged",
        expression=_condition(
            ConditionType.HEALTHY, ConditionStatus.UNKNOWN, 'reason=~"Inconclusive|GuardrailMetricMissing"'
        ),
        hold="10m",
        severity=Severity.WARNING,
        summary=f"{_JOB} is not guarded: {{{{ $labels.reason }}}}",
        description="Guardrails get no figures. Training goes on; what is missed is judged when they are back.",
    ),
    Alert(
        name="PPOJobNoConfirmedCheckpoint",
        expression=when(f"{records.UNCONFIRMED.name} > {_DUE}", RUNNING),
        hold="5m",
        severity=Severity.WARNING,
        summary=f"{_JOB}: {{{{ $value }}}} steps since the newest confirmed checkpoint",
        description="Three checkpoints should have been confirmed since; a rollback now would lose these steps.",
    ),
    Alert(
        name="PPOJobCheckpointSaveFailing",
        expression=when(f"({records.UNSAVED.name} and ({_SAVE_FAILED})) or ({_SAVE_OVERDUE})", ACTIVE),
        hold="5m",
        severity=Severity.CRITICAL,
        summary=f"{_JOB}: {{{{ $value }}}} steps since the last complete checkpoint, saving fails",
        description="The newest checkpoint is not usable, or two in a row were not saved.",
    ),
    Alert(
        name="PPOJobRewardCollapse",
        expression=when(
            f"{records.REWARD.name} < 0.5 * (max_over_time({records.REWARD.name}[1d]) > 0)",
            RUNNING,
        ),
        hold="10m",
        severity=Severity.WARNING,
        summary=f"{_JOB}: mean reward {_VALUE} is below half of its best",
        description="The mean reward of ten minutes has fallen below half of the best such mean of the last day.",
    ),
    Alert(
        name="PPOJobKLHigh",
        expression=when(f"{q.of('kl')} > {q.KL_HIGH}", RUNNING),
        hold="5m",
        severity=Severity.WARNING,
        summary=f"{_JOB}: KL to the reference is {_VALUE}",
        description=f"The policy has moved more than {q.KL_HIGH} nats a token from the reference.",
    ),
    Alert(
        name="PPOJobDeviceMemoryHigh",
        expression=when(f"{q.of('deviceMemoryFraction')} > {q.DEVICE_MEMORY_HIGH}", RUNNING),
        hold="5m",
        severity=Severity.WARNING,
        summary=f"{_JOB}: the trainer uses {{{{ $value | humanizePercentage }}}} of the devices' memory",
        description="A longer batch may not fit any more.",
    ),
    Alert(
        name="PPOJobGenerationSlow",
        expression=when(f"{q.stage_seconds(q.GENERATION_STAGE)} > {q.GENERATION_SLOW_SECONDS}", RUNNING),
        hold="5m",
        severity=Severity.WARNING,
        summary=f"{_JOB}: generation takes {_VALUE} s a step",
        description="Generation takes most of a step in RLHF; this one is slower than it should be.",
    ),
    Alert(
        name="PPOJobStuck",
        expression=by_job(ON_THE_WAY, "phase"),
        hold="30m",
        severity=Severity.WARNING,
        summary=f"{_JOB} has been {{{{ $labels.phase }}}} for half an hour",
        description="A phase that a job should leave within minutes has not ended.",
    ),
    Alert(
        name="PPOJobReconcileErrors",
        expression=f"{by_job(f'increase({series(m.RECONCILE_ERRORS)}[10m])', 'error', aggregation='sum')} > 5",
        hold="5m",
        severity=Severity.WARNING,
        summary=f"{_JOB}: {_VALUE} passes failed in ten minutes ({{{{ $labels.error }}}})",
        description="The operator cannot look after the job as it should; it tries again and again.",
    ),
)

OPERATOR_ALERTS: Final = (
    Alert(
        name="PPOJobOperatorDown",
        expression=f"absent({series(m.LEADER)} == 1)",
        hold="5m",
        severity=Severity.CRITICAL,
        summary="no PPOJob operator leads: PPOJobs are not looked after",
        description="Trainings go on, but breaches, crashes and edits are not acted on until an operator is back.",
    ),
)

ALERTS: Final = (*JOB_ALERTS, *OPERATOR_ALERTS)
