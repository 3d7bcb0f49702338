"""Queries name what is declared, or are not built."""

import pytest

from ppojob_contract import metrics as m
from ppojob_operator.codegen.monitoring.promql import by_job, figure, series, when


def test_a_selector() -> None:
    assert series(m.STEP) == "ppojob_step"
    assert series(m.PHASE, 'namespace=~"a|b"', phase="Running") == 'ppojob_phase{phase="Running",namespace=~"a|b"}'
    assert series(m.STEP_DURATION, part="sum") == "ppojob_step_duration_seconds_sum"


@pytest.mark.parametrize(
    ("metric", "matchers", "part"),
    [(m.STEP, ['phase="Running"'], ""), (m.STEP_DURATION, [], ""), (m.STEP, [], "sum"), (m.PHASE, ['pase!~"x"'], "")],
)
def test_what_a_metric_has_not_is_refused(metric: m.Metric, matchers: list[str], part: str) -> None:
    with pytest.raises(KeyError):
        series(metric, *matchers, part=part)


def test_a_figure_is_found_by_its_name() -> None:
    assert figure("criticGradNorm", 'ppojob="a"') == 'ppojob_gradient_norm{role="critic",ppojob="a"}'
    with pytest.raises(KeyError):
        figure("gradnorm")


def test_one_series_a_job() -> None:
    assert by_job("x", "phase") == "max by (namespace, ppojob, phase) (x)"
    assert when("x > 1", "y") == "(x > 1) and on (namespace, ppojob) y"
