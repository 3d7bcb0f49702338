"""Adjustable parameters: their value in a spec, and what an adjustment makes of the value in force."""

from collections.abc import Sequence

from ppojob_contract.parameters import Parameter
from ppojob_operator.api.v1alpha1.spec import Adjustment, PPOJobSpec
from ppojob_operator.api.v1alpha1.status import ParameterValue
from ppojob_operator.api.v1alpha1.training import Estimator


def spec_value(spec: PPOJobSpec, parameter: Parameter) -> float | None:
    """The parameter's value as the spec has it; None where this configuration does not have the parameter."""
    match parameter:
        case Parameter.LEARNING_RATE:
            return spec.training.learning_rate
        case Parameter.CRITIC_LEARNING_RATE:
            return spec.training.critic_learning_rate if spec.algorithm.estimator is Estimator.GAE else None
        case Parameter.KL_COEFFICIENT:
            return spec.algorithm.kl.coefficient
        case Parameter.ENTROPY_COEFFICIENT:
            return spec.algorithm.entropy_coefficient
        case Parameter.CLIP_RATIO:
            return spec.algorithm.clip_ratio


def in_force(spec: PPOJobSpec, adjustments: Sequence[ParameterValue]) -> tuple[ParameterValue, ...]:
    """Adjustments that still hold: editing a parameter in the spec drops its adjustment."""
    return tuple(item for item in adjustments if spec_value(spec, item.parameter) == item.spec_value)


def adjusted(spec: PPOJobSpec, adjustments: Sequence[ParameterValue]) -> tuple[ParameterValue, ...]:
    """Absolute values for the next attempt: `rollback.adjust` applied once to the values in force.

    Absolute, since a checkpoint saved after an adjustment already carries it: applying a factor to what was loaded
    would compound.
    """
    values = {item.parameter: item for item in in_force(spec, adjustments)}
    for adjustment in spec.rollback.adjust:
        base = spec_value(spec, adjustment.parameter)
        if base is None:
            continue
        current = values[adjustment.parameter].value if adjustment.parameter in values else base
        values[adjustment.parameter] = ParameterValue(
            parameter=adjustment.parameter, value=_apply(adjustment, current), spec_value=base
        )
    return tuple(values.values())


def _apply(adjustment: Adjustment, value: float) -> float:
    if adjustment.set is not None:
        value = adjustment.set
    elif adjustment.multiply is not None:
        value *= adjustment.multiply
    elif adjustment.add is not None:
        value += adjustment.add
    if adjustment.min is not None:
        value = max(value, adjustment.min)
    if adjustment.max is not None:
        value = min(value, adjustment.max)
    return value
