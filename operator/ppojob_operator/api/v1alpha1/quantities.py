"""Kubernetes' quantities as numbers."""

from decimal import Decimal

_UNITS = {
    "": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50,
}  # fmt: skip


def quantity_bytes(quantity: str) -> int | None:
    """Of a memory quantity; None for a unit that is none of memory (`m`)."""
    number = quantity.rstrip("kMGTPim")
    unit = _UNITS.get(quantity[len(number) :])
    return None if unit is None else int(Decimal(number) * unit)
