"""Log lines."""

import json
import logging

from ppojob_operator.logs import JsonFormatter, TextFormatter


def record(**extra: object) -> logging.LogRecord:
    made = logging.LogRecord("ppojob", logging.INFO, "file", 1, "said %s", ("this",), None)
    made.created = 0.25
    made.__dict__.update(extra)
    return made


def test_json_carries_the_fields_of_the_call() -> None:
    line = json.loads(JsonFormatter().format(record(ppojob="job", attempt=2, token="secret")))
    assert line == {
        "time": "1970-01-01T00:00:00.250Z",
        "level": "info",
        "logger": "ppojob",
        "message": "said this",
        "ppojob": "job",
        "attempt": 2,
    }


def test_text_carries_the_fields_of_the_call() -> None:
    line = TextFormatter().format(record(namespace="ns", ppojob="job"))
    assert line == "1970-01-01T00:00:00.250Z INFO    said this namespace=ns ppojob=job"
