"""When a fold goes on where it was, and when it begins anew."""

import dataclasses
import math

import pytest
from tests.support.builders import raw_guardrail, rows, spec

from ppojob_operator.domain.guardrails.kept import Basis, Kept
from ppojob_operator.domain.guardrails.readings import no_queries
from ppojob_operator.domain.lineage import Segment

SPEC = spec(guardrails=[raw_guardrail()])
ALONG = (Segment(1, 0, 3), Segment(2, 3, 8), Segment(3, 8, math.inf))
BASIS = Basis(spec=SPEC, attempt=3, grace_through=11, segments=ALONG)
ROWS = {1: rows([0.1] * 3), 2: rows([0.1] * 5, first=4), 3: rows([0.3] * 4, first=9)}


def goes_on(basis: Basis = BASIS, known=ROWS, first: Basis = BASIS) -> bool:
    """Whether the second look uses what the first has found. It comes to what a new fold comes to."""
    kept = Kept()
    kept.judge(first, ROWS, no_queries)
    before = kept.fold
    assert kept.judge(basis, known, no_queries) == Kept().judge(basis, known, no_queries)
    return kept.fold is before


def test_the_same_rows_and_more_of_the_last_attempt_go_on():
    assert goes_on()
    assert goes_on(known=ROWS | {3: rows([0.3] * 9, first=9)})


@pytest.mark.parametrize(
    "fields",
    [
        {"spec": spec(guardrails=[raw_guardrail()])},
        {"attempt": 4},
        {"grace_through": 10},
        {"segments": (Segment(1, 0, 2), *ALONG[1:])},
    ],
)
def test_another_basis_begins_anew(fields):
    assert not goes_on(dataclasses.replace(BASIS, **fields))


@pytest.mark.parametrize("known", [{1: rows([0.1] * 2)}, {2: rows([0.1] * 4, first=4)}, {3: rows([0.3] * 3, first=9)}])
def test_other_rows_begin_anew(known):
    assert not goes_on(known=ROWS | known)


def test_a_query_may_have_another_answer_by_now():
    asks = spec(guardrails=[raw_guardrail(conditions=[{"promql": "max(up)", "above": 1}])])
    basis = dataclasses.replace(BASIS, spec=asks)
    assert not goes_on(basis, first=basis)


def test_the_grace_holds():
    """Row 11 is the last that only warns: the bad ones from row 9 on act at row 12."""
    judged = Kept().judge(BASIS, ROWS, no_queries)
    breach = judged.assessments[0].breach
    assert breach is not None
    assert breach.step == 12
