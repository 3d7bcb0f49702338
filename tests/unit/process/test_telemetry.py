"""The operator's metrics: all that are declared, and none of a job that is gone."""

from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.examples import accepted

from ppojob_contract.metrics import (
    BREACHES,
    CHECKPOINT_INTERVAL,
    CHECKPOINTS,
    CONDITION,
    CONFIRMATION_WINDOW,
    FROM_STATUS,
    HELD_SECONDS,
    JOB_RESTARTS,
    JOB_ROLLBACKS,
    LEADER,
    OPERATOR_METRICS,
    PAUSED,
    PHASE,
    RECONCILE_ERRORS,
    STEPS,
    TARGET_STEPS,
    TRAINING_SECONDS,
    USEFUL_STEPS,
    Metric,
)
from ppojob_operator.api.v1alpha1.status import CheckpointPhase, ConditionType, PPOJobStatus
from ppojob_operator.controller.workers import DEFECT, EXPECTED
from ppojob_operator.domain.decisions import Wait
from ppojob_operator.job_series import JobSeries
from ppojob_operator.ports import Key
from ppojob_operator.telemetry import Health, Telemetry, TelemetryServer

KEY = Key("ns", "job", "uid-1")
THEN = datetime(2026, 1, 1, tzinfo=UTC)


def status(**fields: Any) -> PPOJobStatus:
    return PPOJobStatus.model_validate({"phase": "Running"} | fields)


def value(telemetry: Telemetry, name: str, **labels: str) -> float | None:
    return telemetry.registry.get_sample_value(name, labels)


def guardrails(**verdicts: str) -> list[dict[str, str]]:
    return [{"name": name, "verdict": verdict} for name, verdict in verdicts.items()]


def test_every_declared_metric_is_there() -> None:
    telemetry = Telemetry()
    names = {family.name for family in telemetry.registry.collect()}
    assert {metric.name.removesuffix("_total") for metric in (*OPERATOR_METRICS, *FROM_STATUS)} <= names


def test_a_jobs_series_follow_its_status_and_go_with_it() -> None:
    telemetry = Telemetry()
    telemetry.observe_job(KEY, status(rollbacks=2, guardrails=guardrails(kl="Breached", reward="Healthy")))
    assert value(telemetry, "ppojob_rollbacks_total", namespace="ns", ppojob="job") == 2
    kl = {"guardrail": "kl", "action": "Warn", "dry_run": "false"}
    assert value(telemetry, "ppojob_guardrail_verdict", namespace="ns", ppojob="job", **kl) == 1
    assert value(telemetry, "ppojob_operator_jobs", phase="Running") == 1
    telemetry.observe_job(KEY, status(rollbacks=2, phase="Failed", guardrails=guardrails(reward="Inconclusive")))
    assert value(telemetry, "ppojob_guardrail_verdict", namespace="ns", ppojob="job", **kl) is None
    assert value(telemetry, "ppojob_operator_jobs", phase="Running") == 0
    telemetry.forget(KEY)
    left = [sample for family in telemetry.registry.collect() for sample in family.samples if "ppojob" in sample.labels]
    assert left == []
    assert value(telemetry, "ppojob_operator_jobs", phase="Failed") == 0


def test_a_new_job_of_the_same_name_keeps_its_series() -> None:
    telemetry = Telemetry()
    telemetry.observe_job(KEY, status(rollbacks=4))
    telemetry.observe_job(Key("ns", "job", "uid-2"), status(rollbacks=0))
    telemetry.forget(KEY)
    assert value(telemetry, "ppojob_rollbacks_total", namespace="ns", ppojob="job") == 0
    assert value(telemetry, "ppojob_operator_rollbacks_total", path="Cold") is None


def test_rollbacks_and_restarts_are_counted_as_they_happen() -> None:
    telemetry = Telemetry()
    telemetry.observe_job(KEY, status(rollbacks=5, restarts=3))
    assert value(telemetry, "ppojob_operator_rollbacks_total", path="Cold") is None
    intent = {"id": "i", "kind": "Restart", "since": THEN, "reason": "OutOfMemory", "attempt": 4}
    telemetry.observe_job(KEY, status(rollbacks=6, restarts=4, intent=intent))
    assert value(telemetry, "ppojob_operator_rollbacks_total", path="Cold") is None, "it is not there yet"
    attempt = {"number": 5, "cluster": 1, "created": THEN, "cause": "Rollback"}
    telemetry.observe_job(KEY, status(rollbacks=6, restarts=4, attempt=attempt))
    telemetry.observe_job(KEY, status(rollbacks=6, restarts=4, attempt=attempt))
    telemetry.observe_job(KEY, status(rollbacks=7, restarts=4, attempt=attempt | {"number": 6, "carriedBy": 5}))
    assert value(telemetry, "ppojob_operator_rollbacks_total", path="Cold") == 1
    assert value(telemetry, "ppojob_operator_rollbacks_total", path="Hot") == 1
    assert value(telemetry, "ppojob_operator_restarts_total", **{"class": "OutOfMemory"}) == 1


def test_a_rollback_is_timed_to_the_next_first_step() -> None:
    telemetry = Telemetry()
    intent = {"id": "i", "kind": "Rollback", "since": THEN, "reason": "Breached", "attempt": 1}
    attempt = {"number": 2, "cluster": 1, "created": THEN}
    telemetry.observe_job(KEY, status())
    telemetry.observe_job(KEY, status(intent=intent, rollbacks=1))
    telemetry.observe_job(KEY, status(attempt=attempt, rollbacks=1))
    assert value(telemetry, "ppojob_operator_rollback_seconds_count", path="Cold") is None
    for _ in range(2):
        stepped = attempt | {"firstStep": THEN + timedelta(seconds=40)}
        telemetry.observe_job(KEY, status(attempt=stepped, rollbacks=1))
    assert value(telemetry, "ppojob_operator_rollback_seconds_sum", path="Cold") == 40


def test_decisions_and_requests() -> None:
    telemetry = Telemetry()
    telemetry.count_decision(Wait(reason="Training"))
    telemetry.request("get", "200")
    assert value(telemetry, "ppojob_operator_decisions_total", decision="Wait") == 1
    assert value(telemetry, "ppojob_operator_api_requests_total", verb="get", code="200") == 1


def test_health_needs_answers_of_the_api_server() -> None:
    now = 0.0
    telemetry = Telemetry(health=Health(monotonic=lambda: now))
    now = 100.0
    telemetry.request("get", "0")
    assert telemetry.health.problems() == ["api server: no answer for 100 s"]
    telemetry.request("get", "404")
    assert telemetry.health.problems() == []
    telemetry.health.checks.append(lambda: ["watch of pods: late"])
    assert telemetry.health.problems() == ["watch of pods: late"]


@pytest.mark.parametrize(("problems", "status_code"), [([], 200), (["watch of pods: late"], 503)])
async def test_the_server_answers(problems: list[str], status_code: int) -> None:
    telemetry = Telemetry(health=Health(checks=[lambda: problems]))
    server = TelemetryServer(telemetry, 0, "127.0.0.1")
    port = await server.start()
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            async with session.get("/healthz") as answer:
                assert answer.status == status_code
            async with session.get("/metrics") as answer:
                families = list(text_string_to_metric_families(await answer.text()))
                assert "ppojob_operator_jobs" in {family.name for family in families}
    finally:
        await server.close()


def of_job(telemetry: Telemetry, metric: Metric, **labels: str) -> float | None:
    return value(telemetry, metric.name, namespace="ns", ppojob="job", **labels)


def test_counts_of_a_job_survive_a_restart_of_the_operator() -> None:
    goodput = {"steps": 49, "usefulSteps": 40, "trainingSeconds": 98.0, "heldSeconds": 200.0}
    before = status(rollbacks=1, restarts=2, goodput=goodput)
    for telemetry in (Telemetry(), Telemetry()):
        telemetry.observe_job(KEY, before)
        counted = (JOB_ROLLBACKS, JOB_RESTARTS, STEPS, USEFUL_STEPS, TRAINING_SECONDS, HELD_SECONDS)
        assert [of_job(telemetry, metric) for metric in counted] == [1, 2, 49, 40, 98.0, 200.0]


def test_time_held_goes_on_between_two_passes() -> None:
    series = JobSeries(now=lambda: THEN + timedelta(seconds=30))
    told = series.of(KEY)
    told.seen, told.status = True, status(goodput={"heldSeconds": 5.0, "heldSince": THEN})
    (family,) = [family for family in series.collect() if f"{family.name}_total" == HELD_SECONDS.name]
    assert [sample.value for sample in family.samples] == [35.0]


def test_failed_passes_are_told_before_anything_is_known_and_go_with_the_job() -> None:
    telemetry = Telemetry()
    telemetry.failed(KEY, "ClusterUnavailable")
    telemetry.failed(KEY, "ClusterUnavailable")
    assert of_job(telemetry, RECONCILE_ERRORS, error="ClusterUnavailable") == 2
    assert of_job(telemetry, PHASE, phase="Pending") is None
    telemetry.observe_job(KEY, status())
    assert of_job(telemetry, RECONCILE_ERRORS, error="ClusterUnavailable") == 2
    assert of_job(telemetry, PHASE, phase="Running") == 1
    telemetry.forget(KEY)
    assert of_job(telemetry, RECONCILE_ERRORS, error="ClusterUnavailable") is None


def test_conditions_and_the_spec_are_told() -> None:
    telemetry = Telemetry()
    condition = {"type": "Failed", "status": "True", "reason": "RollbacksExhausted", "lastTransitionTime": THEN}
    checkpoints = {"items": [{"attempt": 1, "step": n, "phase": "Confirmed"} for n in (5, 10)]}
    spec = accepted("rollback").spec
    telemetry.observe_job(KEY, status(conditions=[condition], checkpoints=checkpoints), spec)
    assert of_job(telemetry, CONDITION, condition="Failed", status="True", reason="RollbacksExhausted") == 1
    assert of_job(telemetry, CHECKPOINTS, state="Confirmed") == 2
    expected = (spec.training.total_steps, spec.checkpoints.every_steps, 3)
    assert tuple(of_job(telemetry, m) for m in (TARGET_STEPS, CHECKPOINT_INTERVAL, CONFIRMATION_WINDOW)) == expected


def test_only_a_leader_says_that_it_leads() -> None:
    telemetry = Telemetry()
    assert value(telemetry, LEADER.name) == 0
    telemetry.leads(True)
    assert value(telemetry, LEADER.name) == 1


def test_no_job_has_more_series_than_declared() -> None:
    """The longest lists that the CRD allows."""
    telemetry = Telemetry()
    kinds = list(ConditionType)
    conditions = [
        {"type": kind, "status": "True", "reason": "R", "lastTransitionTime": THEN} for kind in (*kinds, *kinds)[:16]
    ]
    items = [{"attempt": 1, "step": n, "phase": phase} for n, phase in enumerate(list(CheckpointPhase) * 8)][:50]
    many = guardrails(**{f"g{number}": "Healthy" for number in range(128)})
    telemetry.observe_job(KEY, status(conditions=conditions, checkpoints={"items": items}, guardrails=many))
    for error in (*EXPECTED, KeyError, ValueError):
        telemetry.failed(KEY, error.__name__ if error in EXPECTED else DEFECT)
    for family in telemetry.registry.collect():
        (metric,) = [m for m in FROM_STATUS if m.name.removesuffix("_total") == family.name] or [None]
        assert metric is None or len(family.samples) <= metric.series, metric


def test_a_breach_is_counted_however_short() -> None:
    """A rollback in place is done within seconds, and its attempt begins without verdicts."""
    telemetry = Telemetry()
    verdicts = ["Waiting", "Healthy", "Breached", "Breached", None, "Healthy", "Breached"]
    counted = []
    for verdict in verdicts:
        telemetry.observe_job(KEY, status(guardrails=guardrails(kl=verdict) if verdict else []))
        counted.append(of_job(telemetry, BREACHES, guardrail="kl"))
    assert counted == [0, 0, 1, 1, 1, 1, 2]
    telemetry.forget(KEY)
    assert of_job(telemetry, BREACHES, guardrail="kl") is None


def test_what_was_breached_before_is_not_counted_again_by_the_next_operator() -> None:
    telemetry = Telemetry()
    telemetry.observe_job(KEY, status(guardrails=guardrails(kl="Breached")))
    assert of_job(telemetry, BREACHES, guardrail="kl") == 0


def test_a_job_that_waits_for_a_person_says_so_until_one_has_taken_over() -> None:
    telemetry = Telemetry()
    pause = {"guardrail": "reward", "reason": "GuardrailBreached", "step": 7, "attempt": 1, "since": THEN}
    telemetry.observe_job(KEY, status(pausedBy=pause))
    assert of_job(telemetry, PAUSED, reason="GuardrailBreached") == 1
    telemetry.observe_job(KEY, status(pausedBy=pause | {"released": True}))
    assert of_job(telemetry, PAUSED, reason="GuardrailBreached") is None
