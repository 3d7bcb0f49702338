"""A word that somebody mistyped leads to the one that was meant."""

import pytest

from ppojob_contract.figures import FIGURES
from ppojob_operator.domain.suggestions import closest


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_a_figure_is_found_in_any_case(name: str) -> None:
    for word in (name.upper(), name.lower(), name.capitalize()):
        assert closest(word, FIGURES) == name


@pytest.mark.parametrize(
    ("word", "meant"), [("rewardMaen", "rewardMean"), ("reward_mean", "rewardMean"), ("grad_norm", "gradNorm")]
)
def test_a_figure_is_found_in_spite_of_a_slip(word: str, meant: str) -> None:
    assert closest(word, FIGURES) == meant


def test_nothing_is_made_up() -> None:
    assert closest("zzz", FIGURES) is None
