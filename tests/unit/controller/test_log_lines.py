"""What the operator says of a whole story: one line for each decision, with its job, attempt and reason; no secret."""

import json
import logging
from itertools import pairwise

import pytest
from tests.support.builders import raw_guardrail, raw_spec
from tests.support.drive import Drive
from tests.support.scripts import runs_away
from tests.support.world import World

from ppojob_operator.logs import JsonFormatter, TextFormatter

PASSWORD = "correct horse"
GUARDED = raw_spec(guardrails=[raw_guardrail()], trainer={"env": [{"name": "WANDB_API_KEY", "value": PASSWORD}]})


async def story(caplog: pytest.LogCaptureFixture, *, at_most: int = 1) -> tuple[World, list[logging.LogRecord]]:
    with caplog.at_level(logging.DEBUG, logger="ppojob_operator"):
        world = await Drive(World(runs_away(18), spec=GUARDED)).to_the_end(at_most=at_most)
    return world, [record for record in caplog.records if record.name.startswith("ppojob_operator")]


async def test_every_decision_has_a_line_with_job_attempt_and_reason(caplog: pytest.LogCaptureFixture) -> None:
    world, records = await story(caplog)
    lines = [json.loads(JsonFormatter().format(record)) for record in records]
    told = [line for line in lines if "decision" in line]
    assert {(line["namespace"], line["ppojob"]) for line in told} == {(world.key.namespace, world.key.name)}
    said = [(line["decision"], line["attempt"]) for line in told]
    assert {("CreateCluster", 0), ("StartAttempt", 1), ("Begin", 1), ("RollBackInPlace", 1)} <= set(said)
    begun = [line["reason"] for line in told if line["decision"] == "Begin"]
    assert begun == ["GuardrailBreached"] * 3 + ["RollbacksExhausted"]
    carried_out = [line["reason"] for line in told if line["decision"] in {"RollBackInPlace", "AskToStop"}]
    assert carried_out == begun, "with the reason of what was begun"
    assert all(line["reason"] for line in told if line["decision"] in {"Wait", "Begin", "Finish"})


async def test_a_decision_that_stays_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Ten looks at each step make no more lines than one does."""
    _, records = await story(caplog)
    said = [(record.ppojob, record.attempt, record.getMessage()) for record in records if hasattr(record, "decision")]
    assert all(one != two for one, two in pairwise(said))


async def test_no_line_has_the_monitors_token_or_a_value_of_the_users_environment(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, records = await story(caplog)
    secrets = {*world.tokens.values(), PASSWORD}
    assert len(secrets) == 2
    for formatter in (JsonFormatter(), TextFormatter()):
        text = "\n".join(formatter.format(record) for record in records)
        assert not any(secret in text for secret in secrets)
