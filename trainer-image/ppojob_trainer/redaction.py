"""Messages and log lines without secrets: what libraries put into their errors is not ours to choose."""

import logging
import os
import re
from collections.abc import Mapping

HIDDEN = "***"

_SECRET_NAME = re.compile(r"(TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)
_SHORTEST = 6
"""Characters; a shorter value would be found inside ordinary words."""

_PATTERNS = (
    re.compile(r"(?<=Bearer )[\w.~+/=-]+", re.IGNORECASE),
    re.compile(r"\b(?:hf|sk|ms|ghp|glpat)[-_][A-Za-z0-9_-]{16,}"),
    re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),
)


def redact(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """The text without values of variables that are named like secrets, and without what looks like one."""
    secrets = {
        value for name, value in environment.items() if _SECRET_NAME.search(name) and len(value.strip()) >= _SHORTEST
    }
    for value in sorted(secrets, key=len, reverse=True):
        text = text.replace(value.strip(), HIDDEN)
    for pattern in _PATTERNS:
        text = pattern.sub(HIDDEN, text)
    return text


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))


def log_without_secrets() -> None:
    """Sets this process's logging up."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
