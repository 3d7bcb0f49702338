import pytest
from tests.support.builders import raw_spec, spec

from ppojob_contract.parameters import Parameter
from ppojob_operator.api.v1alpha1.status import ParameterValue
from ppojob_operator.domain.parameters import adjusted, in_force, spec_value


def with_adjust(*adjust, learning_rate=1e-3):
    training = raw_spec()["training"] | {"learningRate": learning_rate}
    return spec(training=training, rollback={"adjust": list(adjust)})


def value(found, parameter=Parameter.LEARNING_RATE):
    return next(item.value for item in found if item.parameter is parameter)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"multiply": 0.1}, 1e-4),
        ({"add": 1e-3}, 2e-3),
        ({"set": 5e-5}, 5e-5),
        ({"multiply": 0.1, "min": 5e-4}, 5e-4),
        ({"multiply": 10.0, "max": 2e-3}, 2e-3),
    ],
)
def test_an_adjustment_gives_an_absolute_value(change, expected):
    found = adjusted(with_adjust({"parameter": "LearningRate", **change}), ())
    assert value(found) == pytest.approx(expected)


def test_the_next_rollback_starts_from_the_value_in_force():
    job = with_adjust({"parameter": "LearningRate", "multiply": 0.1})
    once = adjusted(job, ())
    assert value(adjusted(job, once)) == pytest.approx(1e-5)


def test_editing_a_parameter_drops_its_adjustment():
    old = adjusted(with_adjust({"parameter": "LearningRate", "multiply": 0.1}), ())
    edited = with_adjust({"parameter": "LearningRate", "multiply": 0.1}, learning_rate=5e-4)
    assert in_force(edited, old) == ()
    assert value(adjusted(edited, old)) == pytest.approx(5e-5)


def test_a_parameter_that_this_configuration_lacks_is_left_alone():
    job = spec(
        algorithm={"estimator": "GRPO"},
        rollout={"samplesPerPrompt": 4},
        rollback={"adjust": [{"parameter": "CriticLearningRate", "multiply": 0.5}]},
    )
    assert adjusted(job, ()) == ()
    kept = ParameterValue(parameter=Parameter.CLIP_RATIO, value=0.1, spec_value=0.2)
    assert in_force(job, [kept]) == (kept,)


def test_what_a_configuration_has():
    gae = spec(
        training=raw_spec()["training"] | {"learningRate": 1e-3, "criticLearningRate": 2e-3},
        algorithm={
            "estimator": "GAE",
            "kl": {"coefficient": 0.01},
            "entropyCoefficient": 0.02,
            "clipRatio": 0.3,
        },
    )
    assert {item: spec_value(gae, item) for item in Parameter} == {
        Parameter.LEARNING_RATE: 1e-3,
        Parameter.CRITIC_LEARNING_RATE: 2e-3,
        Parameter.KL_COEFFICIENT: 0.01,
        Parameter.ENTROPY_COEFFICIENT: 0.02,
        Parameter.CLIP_RATIO: 0.3,
    }
    assert spec_value(spec(algorithm={"estimator": "GRPO"}), Parameter.CRITIC_LEARNING_RATE) is None


def test_a_parameter_that_this_configuration_lacks_is_passed_over_and_the_next_is_not():
    job = spec(
        algorithm={"estimator": "GRPO"},
        rollback={
            "adjust": [
                {"parameter": "CriticLearningRate", "multiply": 0.5},
                {"parameter": "ClipRatio", "set": 0.1},
            ]
        },
    )
    assert [(item.parameter, item.value) for item in adjusted(job, ())] == [(Parameter.CLIP_RATIO, 0.1)]
