"""Quantities as the API server reads them."""

from decimal import Decimal

import pytest

from ppojob_operator.api.v1alpha1.quantities import quantity_value


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        (8, "8"), ("1500m", "1.5"), ("1e3", "1000"), ("1E3", "1000"), ("1E", "1e18"), ("2Ei", str(2**61)),
        ("5u", "0.000005"), ("7n", "0.000000007"), ("1Ki", "1024"), (".5", "0.5"), ("1.", "1"), (0.5, "0.5"),
        ("3k", "3000"), ("100M", "100000000"),
    ],
)  # fmt: skip
def test_values(quantity: object, expected: str) -> None:
    assert quantity_value(quantity) == Decimal(expected)


@pytest.mark.parametrize("quantity", ["", "ki", "1ki", "ten", "1 Gi", "Gi", "1Gib", None, True, [], "1e9999"])
def test_what_is_no_quantity(quantity: object) -> None:
    assert quantity_value(quantity) is None
