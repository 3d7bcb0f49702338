"""Kubernetes' quantities as numbers."""

import re
from decimal import Decimal
from typing import Any

_UNITS = {
    "": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
}  # fmt: skip
_FRACTIONS = {"m": Decimal("1e-3"), "u": Decimal("1e-6"), "n": Decimal("1e-9")}
_FORM = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)(k|[KMGTPE]i|[MGTPE]|[mun]?)")


def quantity_value(quantity: Any) -> Decimal | None:
    """Of any quantity; None for what is none."""
    found = _FORM.fullmatch(str(quantity))
    if found is None:
        return None
    number, unit = found.groups()
    return Decimal(number) * (_FRACTIONS.get(unit) or _UNITS[unit])


def quantity_bytes(quantity: str) -> int | None:
    """Of a memory quantity; None for a unit that is none of memory (`m`)."""
    value = quantity_value(quantity)
    return None if value is None or quantity[-1] in _FRACTIONS else int(value)
