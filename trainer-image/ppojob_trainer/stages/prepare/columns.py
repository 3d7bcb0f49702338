"""Values of columns, or why they cannot be used."""

from collections.abc import Mapping, Sequence
from typing import Any

from ppojob_trainer.stages.prepare.rows import Message, RowError

_ROLES = {"system", "user", "assistant"}
_NAMES_SHOWN = 8


def text(row: Mapping[str, Any], column: str) -> str:
    """Raises RowError where there is none."""
    return _text(_value(row, column), f"column {column!r}")


def optional_text(row: Mapping[str, Any], column: str) -> str:
    """Empty where there is no such column or nothing in it; numbers become text."""
    value = row.get(column)
    if value is None or value == "":
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return _text(value, f"column {column!r}")


def messages(row: Mapping[str, Any], column: str, *, last: str = "user") -> list[Message]:
    """A text is one message of the user. Raises RowError."""
    value, what = _value(row, column), f"column {column!r}"
    if isinstance(value, str):
        return [{"role": "user", "content": _text(value, what)}]
    if not isinstance(value, list) or not value:
        raise RowError(f"{what} is {_kind(value)}, not a text or a list of messages")
    found = [_message(item, f"{what}, message {number}") for number, item in enumerate(value, 1)]
    if found[-1]["role"] != last:
        raise RowError(f"{what} ends with a message of the {found[-1]['role']}, not of the {last}")
    return found


def _message(value: Any, what: str) -> Message:
    if not isinstance(value, Mapping) or not {"role", "content"} <= value.keys():
        raise RowError(f"{what} has no role and content")
    if value["role"] not in _ROLES:
        raise RowError(f"{what}: the role is {str(value['role'])[:40]!r}, not system, user or assistant")
    return {"role": value["role"], "content": _text(value["content"], what)}


def _value(row: Mapping[str, Any], column: str) -> Any:
    if column not in row:
        names = [repr(name[:40]) for name in row]
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        raise RowError(f"no column {column!r}; the row has {', '.join(names[:_NAMES_SHOWN]) or 'none'}{more}")
    return row[column]


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise RowError(f"{what} is {_kind(value)}, not a text")
    if not value.strip():
        raise RowError(f"{what} is empty")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise RowError(f"{what} has half of a surrogate pair, which is no character") from error
    return value


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a truth value"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case Sequence():
            return "an empty list" if not value else "a list"
        case _:
            return "an object"
