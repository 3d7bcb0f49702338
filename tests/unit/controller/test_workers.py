"""Passes that fail: what is told, at which level, and that the job is looked at again."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from ppojob_operator.controller.workers import EXPECTED, Workers
from ppojob_operator.errors import ClusterUnavailable, CRDMismatch, LeadershipLost
from ppojob_operator.ports import Key
from ppojob_operator.telemetry import Telemetry

KEY = Key("research", "sums", "uid-1")


async def told(error: Exception, caplog: pytest.LogCaptureFixture) -> logging.LogRecord:
    """The line about a pass that fails so once, and then finds the job gone."""
    failures = [error]

    async def reconcile(*_: Any) -> None:
        if failures:
            workers.wake(KEY)  # or the test would wait for the next try
            raise failures.pop()

    stub = SimpleNamespace(reconcile=reconcile, telemetry=Telemetry(), observer=SimpleNamespace(monitor=None))
    workers = Workers(stub)  # type: ignore[arg-type]
    with caplog.at_level(logging.DEBUG, logger="ppojob_operator"):
        workers.wake(KEY)
        (task,) = [worker.task for worker in workers._workers.values()]
        await asyncio.wait_for(task, 5)
    assert not failures
    (record,) = [record for record in caplog.records if record.name.startswith("ppojob_operator")]
    return record


@pytest.mark.parametrize("kind", EXPECTED)
async def test_what_may_happen_has_one_line_and_no_traceback(
    kind: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    record = await told(kind("as it is"), caplog)
    assert "as it is" in record.getMessage()
    assert record.exc_info is None


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (ClusterUnavailable("busy"), logging.INFO),
        (LeadershipLost("the lease"), logging.INFO),
        (CRDMismatch("upgrade the chart"), logging.WARNING),
        (KeyError("spec"), logging.ERROR),
    ],
)
async def test_what_a_person_must_mend_is_a_warning(
    error: Exception, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    assert (await told(error, caplog)).levelno == level
