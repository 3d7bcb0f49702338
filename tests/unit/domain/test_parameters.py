import pytest
from tests.support.builders import raw_spec, spec

from ppojob_contract.parameters import Parameter
from ppojob_operator.api.v1alpha1.status import ParameterValue
from ppojob_operator.domain.parameters import adjusted, in_force


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
