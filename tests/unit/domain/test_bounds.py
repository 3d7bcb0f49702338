"""A condition's bound, as a number and as a person reads it."""

import pytest

from ppojob_operator.api.v1alpha1.guardrails import FINITE, Condition
from ppojob_operator.domain.guardrails.bounds import figure, in_words, limits, only_finite, violated


def condition(**fields: object) -> Condition:
    return Condition.model_validate({"metric": "kl"} | fields)


@pytest.mark.parametrize(
    ("fields", "reference", "said"),
    [
        ({"above": 0.25}, None, "above 0.25"),
        ({"below": 0.5}, None, "below 0.5"),
        ({"above": 2, "below": 0.5}, None, "above 2 or below 0.5"),
        ({"above": FINITE}, None, "not finite"),
        ({"above": FINITE, "below": 0.5}, None, "above 1e+308 or below 0.5"),
        ({"relativeTo": "Start", "ratio": 2}, None, "above 2 x Start"),
        ({"relativeTo": "Start", "ratio": 2}, 0.1, "above 2 x Start = 0.2"),
        ({"relativeTo": "Start", "ratio": 2}, -1.0, "above 2 x Start"),
        ({"relativeTo": "Best", "ratio": 0.5}, 1.23456789, "below 0.5 x Best = 0.617284"),
        ({"relativeTo": "Median", "by": 0.5}, 0.25, "above Median + 0.5 = 0.75"),
        ({"relativeTo": "Median", "by": -0.5}, 0.25, "below Median - 0.5 = -0.25"),
        ({"relativeTo": "Median", "by": -0.5}, None, "below Median - 0.5"),
    ],
)
def test_a_bound_in_words(fields, reference, said):
    assert in_words(condition(**fields), reference) == said


@pytest.mark.parametrize(
    ("fields", "reference", "expected"),
    [
        ({"above": 2, "below": 0.5}, None, (2, 0.5)),
        ({"relativeTo": "Start", "ratio": 2}, None, None),
        ({"relativeTo": "Start", "ratio": 2}, -1.0, None),
        ({"relativeTo": "Start", "ratio": 2}, 0.0, (0.0, None)),
        ({"relativeTo": "Start", "ratio": 0.5}, 4.0, (None, 2.0)),
        ({"relativeTo": "Start", "by": 0.5}, -4.0, (-3.5, None)),
        ({"relativeTo": "Start", "by": -0.5}, 4.0, (None, 3.5)),
    ],
)
def test_a_bound_in_numbers(fields, reference, expected):
    assert limits(condition(**fields), reference) == expected


def test_the_value_at_the_bound_is_within_it():
    assert (violated(0.5, None, 0.5), violated(None, 0.5, 0.5)) == (False, False)
    assert (violated(0.5, None, 0.6), violated(None, 0.5, 0.4)) == (True, True)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"above": FINITE}, True),
        ({"below": -FINITE}, True),
        ({"above": FINITE, "below": -FINITE}, True),
        ({"above": 1e300}, False),
        ({"above": FINITE, "below": 0}, False),
        ({"relativeTo": "Start", "ratio": 2}, False),
    ],
)
def test_which_bounds_every_finite_value_keeps(fields, expected):
    assert only_finite(condition(**fields)) is expected


def test_what_is_measured_is_told():
    assert figure(condition(above=1)) == "kl"
    assert figure(Condition.model_validate({"promql": "max(up)", "above": 1})) == "max(up)"
