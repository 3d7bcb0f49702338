"""The operator's metrics: all that are declared, and none of a job that is gone."""

from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ppojob_contract.metrics import OPERATOR_METRICS
from ppojob_operator.api.v1alpha1.status import PPOJobStatus
from ppojob_operator.domain.decisions import Wait
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
    assert {metric.name.removesuffix("_total") for metric in OPERATOR_METRICS} <= names


def test_a_jobs_series_follow_its_status_and_go_with_it() -> None:
    telemetry = Telemetry()
    telemetry.observe_job(KEY, status(rollbacks=2, guardrails=guardrails(kl="Breached", reward="Healthy")))
    assert value(telemetry, "ppojob_rollbacks", namespace="ns", ppojob="job") == 2
    assert value(telemetry, "ppojob_guardrail_verdict", namespace="ns", ppojob="job", guardrail="kl") == 1
    assert value(telemetry, "ppojob_operator_jobs", phase="Running") == 1
    telemetry.observe_job(KEY, status(rollbacks=2, phase="Failed", guardrails=guardrails(reward="Inconclusive")))
    assert value(telemetry, "ppojob_guardrail_verdict", namespace="ns", ppojob="job", guardrail="kl") is None
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
    assert value(telemetry, "ppojob_rollbacks", namespace="ns", ppojob="job") == 0
    assert value(telemetry, "ppojob_operator_rollbacks_total", path="Cold") is None


def test_rollbacks_and_restarts_are_counted_as_they_happen() -> None:
    telemetry = Telemetry()
    telemetry.observe_job(KEY, status(rollbacks=5, restarts=3))
    assert value(telemetry, "ppojob_operator_rollbacks_total", path="Cold") is None
    intent = {"id": "i", "kind": "Restart", "since": THEN, "reason": "OutOfMemory", "attempt": 4}
    telemetry.observe_job(KEY, status(rollbacks=6, restarts=4, intent=intent))
    assert value(telemetry, "ppojob_operator_rollbacks_total", path="Cold") == 1
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
    telemetry.health.broken["watches"] = "ended"
    assert telemetry.health.problems() == ["watches: ended"]


@pytest.mark.parametrize(("broken", "status_code"), [({}, 200), ({"watches": "ended"}, 503)])
async def test_the_server_answers(broken: dict[str, str], status_code: int) -> None:
    telemetry = Telemetry(health=Health(broken=broken))
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
