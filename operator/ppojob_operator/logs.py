"""One line for each thing worth knowing, as text or JSON. What a call puts in `extra` becomes fields of the line."""

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from ppojob_operator.settings import LogFormat, LogLevel

FIELDS: Final = ("namespace", "ppojob", "attempt", "step", "decision", "reason", "seconds")
"""What `extra` may carry. Nothing else is written: a token cannot get into a line by accident."""

_QUIET: Final = ("kopf", "aiohttp", "asyncio")


def configure(style: LogFormat, level: LogLevel) -> None:
    """Sends all loggers to standard error. The libraries' own lines begin at warnings, unless all is asked for."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style is LogFormat.JSON else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.DEBUG if level is LogLevel.DEBUG else logging.WARNING)


def fields(record: logging.LogRecord) -> Mapping[str, Any]:
    """The fields that the call gave."""
    return {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **fields(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """`time LEVEL message key=value ...`."""

    def format(self, record: logging.LogRecord) -> str:
        told = " ".join(f"{name}={value}" for name, value in fields(record).items())
        line = f"{_time(record)} {record.levelname:<7} {record.getMessage()} {told}".rstrip()
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
