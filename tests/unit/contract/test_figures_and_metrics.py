"""What a guardrail can watch can be seen in Prometheus too."""

import pytest

from ppojob_contract.figures import FIGURES
from ppojob_contract.metrics import FROM_FIGURES, OPERATOR_METRICS, TRAINER_METRICS


@pytest.mark.parametrize("figure", FIGURES.values(), ids=lambda figure: figure.name)
def test_every_figure_is_exported(figure):
    own_series = {name for metric in FROM_FIGURES for name, *_ in metric.figures}
    assert figure.name in own_series or figure.verl_key, "a computed figure needs a series of its own"


def test_series_name_known_figures():
    assert {name for metric in FROM_FIGURES for name, *_ in metric.figures if "/" not in name} <= set(FIGURES)


def test_names_are_unique_and_in_prometheus_form():
    names = [metric.name for metric in (*TRAINER_METRICS, *OPERATOR_METRICS)]
    assert len(names) == len(set(names))
    assert all(name.startswith("ppojob_") and name == name.lower() for name in names)
