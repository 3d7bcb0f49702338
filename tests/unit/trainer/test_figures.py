import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppojob_contract.figures import FIGURES
from ppojob_trainer.figures import (
    Samples,
    failed_fraction,
    population_std,
    response_lengths,
    reward_spread,
    step_figures,
    validation_reward,
)

SAMPLES = Samples(groups=["a", "a", "b", "b"], scores=[1.0, 1.0, 0.0, 1.0], lengths=[4, 16, 7, 16], failed=[False] * 4)


def test_reward_spread() -> None:
    spread = reward_spread(SAMPLES, grouped=True)
    assert spread["rewardStd"] == pytest.approx(math.sqrt(3) / 4)
    assert spread["rewardGroupStd"] == pytest.approx(0.25)
    assert spread["zeroVarianceGroupFraction"] == 0.5
    assert set(reward_spread(SAMPLES, grouped=False)) == {"rewardStd"}


def test_empty_answers_do_not_count_for_the_reward() -> None:
    samples = Samples(groups=["a", "b"], scores=[1.0, 9.0], lengths=[3, 0], failed=[False, False])
    assert reward_spread(samples, grouped=False) == {"rewardStd": 0.0}
    assert reward_spread(Samples(groups=[], scores=[], lengths=[], failed=[]), grouped=True) == {}


def test_lengths() -> None:
    assert response_lengths([16] * 19 + [1], 16) == {"responseLengthP10": 16.0, "responseClippedFraction": 0.95}
    assert response_lengths([16] * 18 + [1, 2], 16)["responseLengthP10"] == 2.0
    assert response_lengths([1, 1, 1, 1], 16)["responseClippedFraction"] == 0.0
    assert response_lengths([], 16) == {}


def test_failures_are_missing_samples_and_failed_rewards() -> None:
    samples = Samples(groups=["a", "b", "c"], scores=[0.0] * 3, lengths=[1] * 3, failed=[True, False, False])
    assert failed_fraction(samples, missing=1) == 0.5
    assert failed_fraction(Samples(groups=[], scores=[], lengths=[], failed=[]), missing=0) == 0.0


def test_step_figures_are_all_known_and_absent_rather_than_invented() -> None:
    verl = {
        "actor/ppo_kl": 0.1,
        "perf/throughput": 10.0,
        "actor/kl_coef": 0.001,
        "actor/reward_kl_penalty_coeff": 0.02,
        "something/else": 1.0,
    }
    figures = step_figures(verl, SAMPLES, missing=0, max_response_length=16, grouped=True, devices=4, kl=0.3)
    assert set(figures) <= set(FIGURES)
    assert figures["kl"] == 0.3
    assert figures["tokensPerSecond"] == 40.0
    assert figures["klCoefficient"] == 0.02
    assert figures["updateKL"] == 0.1
    assert "deviceMemoryFraction" not in figures
    assert "rewardMean" not in figures
    on_a_device = {"deviceMemoryFraction": 0.5, "criticMemoryAllocatedBytes": 1e9}
    measured = step_figures(
        verl, SAMPLES, missing=0, max_response_length=16, grouped=True, devices=4, device_memory=on_a_device
    )
    assert measured.items() >= on_a_device.items()
    without = step_figures({}, SAMPLES, missing=0, max_response_length=16, grouped=False, devices=1)
    assert not {"kl", "klCoefficient", "tokensPerSecond", "rewardGroupStd"} & set(without)


def test_validation_reward_is_the_mean_over_sources() -> None:
    verl = {
        "val-core/gsm8k/reward/mean@1": 0.2,
        "val-core/math/reward/mean@4": 0.6,
        "val-core/math/reward/best@4/mean": 0.9,
        "val-aux/gsm8k/score/mean@1": 5.0,
    }
    assert validation_reward(verl) == pytest.approx(0.4)
    assert validation_reward({}) is None


def test_a_non_finite_reward_is_seen_in_the_spread() -> None:
    assert math.isnan(population_std([1.0, math.inf]))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_std_is_never_negative_nor_above_half_the_range(values: list[float]) -> None:
    std = population_std(values)
    assert 0.0 <= std <= (max(values) - min(values)) / 2 + 1e-6
