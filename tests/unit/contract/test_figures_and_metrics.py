"""What a guardrail can watch can be seen in Prometheus too."""

import pytest

from ppojob_contract.figures import FIGURES
from ppojob_contract.metrics import FROM_FIGURES, FROM_STATUS, JOB_LABELS, OPERATOR_METRICS, TRAINER_METRICS, MetricType

ALL = (*TRAINER_METRICS, *FROM_STATUS, *OPERATOR_METRICS)


@pytest.mark.parametrize("figure", FIGURES.values(), ids=lambda figure: figure.name)
def test_every_figure_is_exported(figure):
    own_series = {name for metric in FROM_FIGURES for name, *_ in metric.figures}
    assert figure.name in own_series or figure.verl_key, "a computed figure needs a series of its own"


def test_series_name_known_figures():
    assert {name for metric in FROM_FIGURES for name, *_ in metric.figures if "/" not in name} <= set(FIGURES)


def test_names_are_unique_and_in_prometheus_form():
    names = [metric.name for metric in ALL]
    assert len(names) == len(set(names))
    assert all(name.startswith("ppojob_") and name == name.lower() for name in names)


def test_each_has_a_unit_which_is_the_one_its_name_ends_with():
    """As Prometheus' naming rules want it; KL, entropies and rewards have theirs beside the name."""
    ends = ("_seconds", "_bytes", "_tokens", "_tokens_per_second", "_steps", "_fraction")
    unnamed = {m.name: m.unit for m in ALL if not m.name.removesuffix("_total").endswith(ends)}
    assert "1" not in {m.unit for m in ALL if m.name not in unnamed}
    assert {name for name, unit in unnamed.items() if unit == "nats"} == {
        *("ppojob_kl", "ppojob_update_kl", "ppojob_rollout_kl", "ppojob_entropy")
    }
    assert [name for name, unit in unnamed.items() if "reward" in name and unit != "score"] == []


def test_counters_and_histograms_are_told_by_name_and_bounds():
    assert [m.name for m in ALL if (m.type is MetricType.COUNTER) != m.name.endswith("_total")] == []
    assert [m.name for m in ALL if (m.type is MetricType.HISTOGRAM) != bool(m.bounds)] == []


def test_whatever_has_labels_of_its_own_says_how_many_series_that_makes():
    labelled = [m for m in ALL if set(m.labels) - {*JOB_LABELS}]
    one_at_a_time = {"ppojob_phase", "ppojob_paused"}
    assert {m.name for m in labelled if m.series == 1} == one_at_a_time


def test_series_of_jobs_have_the_jobs_labels():
    assert [m.name for m in (*TRAINER_METRICS, *FROM_STATUS) if m.labels[:2] != JOB_LABELS] == []
