"""Guardrails and rollbacks that could never work, or would repeat themselves."""

import difflib
from collections.abc import Iterator

from ppojob_contract.data_plan import DataOrder
from ppojob_contract.figures import FIGURES, Need
from ppojob_contract.parameters import Parameter
from ppojob_operator.api.v1alpha1.spec import Adjustment, Condition, Device, Guardrail, GuardrailAction, PPOJobSpec
from ppojob_operator.api.v1alpha1.training import KLControl
from ppojob_operator.domain import effective
from ppojob_operator.domain.observation import Problem

_POSITIVE = {Parameter.LEARNING_RATE, Parameter.CRITIC_LEARNING_RATE, Parameter.CLIP_RATIO}


def guardrail_problems(spec: PPOJobSpec) -> Iterator[Problem]:
    """Of `spec.guardrails` and `spec.rollback.adjust`."""
    for guardrail in spec.guardrails:
        for index, condition in enumerate(guardrail.conditions):
            path = f"spec.guardrails[{guardrail.name}].conditions[{index}]"
            yield from _condition(spec, condition, path)
    for adjustment in spec.rollback.adjust:
        yield from _adjustment(spec, adjustment, f"spec.rollback.adjust[{adjustment.parameter}]")


def guardrail_warnings(spec: PPOJobSpec) -> Iterator[Problem]:
    """What is accepted and probably not meant."""
    acting = [item for item in spec.guardrails if item.action is GuardrailAction.ROLLBACK and not item.dry_run]
    if not acting:
        yield Problem(field="spec.guardrails", message="unguarded: no guardrail rolls this run back")
        return
    if not spec.rollback.adjust and spec.rollback.data is DataOrder.REPLAY:
        yield Problem(
            field="spec.rollback.adjust",
            message="nothing changes at a rollback, so the run may repeat itself: adjust LearningRate, for example, or "
            "set spec.rollback.data to SkipFailing",
        )
    total, first = spec.training.total_steps, spec.checkpoints.every_steps
    if first + spec.checkpoints.confirm_steps > total:
        yield Problem(
            field="spec.checkpoints.everySteps",
            message=f"a rollback would have no target: the first checkpoint (step {first}) cannot be confirmed before "
            f"the last step ({total})",
        )
    yield from _never_judged(acting, total)


def _never_judged(guardrails: list[Guardrail], total: int) -> Iterator[Problem]:
    for guardrail in guardrails:
        if guardrail.after_step + guardrail.for_steps > total:
            yield Problem(
                field=f"spec.guardrails[{guardrail.name}].afterStep",
                message=f"never breached: its first {guardrail.for_steps} observations end after step {total}",
            )


def _condition(spec: PPOJobSpec, condition: Condition, path: str) -> Iterator[Problem]:
    if condition.above is None and condition.below is None:
        yield Problem(field=path, message="has no threshold: set above, below or both")
    elif condition.above is not None and condition.below is not None and condition.below > condition.above:
        yield Problem(field=f"{path}.below", message="must not exceed above: every value would be a breach")
    yield from _metric(spec, condition.metric, f"{path}.metric")
    kl = spec.algorithm.kl
    if condition.metric == "kl" and condition.above is not None and kl.control is KLControl.ADAPTIVE:
        target = effective.kl_target(spec)
        if condition.above <= target:
            yield Problem(
                field=f"{path}.above",
                message=f"must exceed spec.algorithm.kl.target ({target:g}): control Adaptive steers to it",
            )


def _metric(spec: PPOJobSpec, metric: str, path: str) -> Iterator[Problem]:
    if "/" in metric:
        return  # one of verl's own keys; whether it exists shows when the run logs it
    figure = FIGURES.get(metric)
    if figure is None:
        close = difflib.get_close_matches(metric, FIGURES, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]}?" if close else "see docs/figures.md"
        yield Problem(field=path, message=f"unknown figure {metric!r}: {hint} (verl's own keys have a slash)")
    elif figure.need is not None and (missing := _missing(spec, figure.need)):
        yield Problem(field=path, message=f"{metric} can never exist in this configuration: {missing}")


def _missing(spec: PPOJobSpec, need: Need) -> str | None:
    """What would feed it; None where it is fed."""
    match need:
        case Need.REFERENCE if not effective.has_reference(spec):
            return "there is no reference; set spec.algorithm.kl.monitor to true, or a spec.algorithm.kl.placement"
        case Need.CRITIC if not effective.has_critic(spec):
            return "there is no critic; only spec.algorithm.estimator GAE trains one"
        case Need.GROUPS if spec.rollout.samples_per_prompt < 2:
            return "prompts have one sample each; set spec.rollout.samplesPerPrompt to 2 or more"
        case Need.VALIDATION if spec.training.validate_every_steps == 0:
            return "nothing is validated; set spec.training.validateEverySteps"
        case Need.DEVICE_MEMORY if spec.cluster.device is Device.CPU:
            return "spec.cluster.device CPU has no device memory"
        case _:
            return None


def _adjustment(spec: PPOJobSpec, adjustment: Adjustment, path: str) -> Iterator[Problem]:
    given = [value for value in (adjustment.multiply, adjustment.add, adjustment.set) if value is not None]
    if len(given) != 1:
        yield Problem(field=path, message="set exactly one of multiply, add, set")
    if adjustment.min is not None and adjustment.max is not None and adjustment.min > adjustment.max:
        yield Problem(field=f"{path}.min", message="must not exceed max")
    if missing := _no_parameter(spec, adjustment.parameter):
        yield Problem(field=f"{path}.parameter", message=missing)
    if adjustment.multiply is not None and adjustment.multiply < 0:
        yield Problem(field=f"{path}.multiply", message="must not be negative")
    for name, value in (("multiply", adjustment.multiply), ("set", adjustment.set)):
        if value == 0 and adjustment.parameter in _POSITIVE and not adjustment.min:
            yield Problem(field=f"{path}.{name}", message=f"{adjustment.parameter} must stay above 0")
    if adjustment.set is not None and adjustment.set < 0:
        yield Problem(field=f"{path}.set", message="must not be negative")
    if adjustment.add is not None and adjustment.add < 0 and adjustment.min is None:
        yield Problem(field=f"{path}.add", message="a decrease needs min, or the value ends below 0")


def _no_parameter(spec: PPOJobSpec, parameter: Parameter) -> str | None:
    if parameter is Parameter.CRITIC_LEARNING_RATE and not effective.has_critic(spec):
        return "there is no critic; only spec.algorithm.estimator GAE trains one"
    if parameter is Parameter.KL_COEFFICIENT and not (effective.kl_in_loss(spec) or effective.kl_in_reward(spec)):
        return "there is no KL penalty; spec.algorithm.kl.placement is None"
    return None
