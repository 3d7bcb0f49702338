"""Guardrails and rollbacks that could never work, or would repeat themselves."""

from collections.abc import Iterator

from ppojob_contract.data_plan import DataOrder
from ppojob_contract.figures import FIGURES, Need
from ppojob_contract.journal import REWARD_TERM
from ppojob_contract.parameters import Parameter
from ppojob_operator.api.v1alpha1.guardrails import Condition, Guardrail, OnExhausted
from ppojob_operator.api.v1alpha1.reward import RuleType
from ppojob_operator.api.v1alpha1.spec import Adjustment, Device, PPOJobSpec
from ppojob_operator.api.v1alpha1.training import KLControl
from ppojob_operator.domain import effective
from ppojob_operator.domain.guardrails.cleanness import window
from ppojob_operator.domain.guardrails.guards import Guard, expand, guards_of
from ppojob_operator.domain.observation import Problem
from ppojob_operator.domain.suggestions import closest

_POSITIVE = {Parameter.LEARNING_RATE, Parameter.CRITIC_LEARNING_RATE, Parameter.CLIP_RATIO}

LARGEST_STD = 0.5
"""Of numbers between 0 and 1."""


def guardrail_problems(spec: PPOJobSpec, *, prometheus: bool) -> Iterator[Problem]:
    """Of `spec.guardrails` and `spec.rollback.adjust`. `prometheus`: whether the operator has one to ask."""
    for guardrail in spec.guardrails:
        yield from _guardrail(spec, guardrail, f"spec.guardrails[{guardrail.name}]", prometheus=prometheus)
    names, written = [guard.name for guard in guards_of(spec)], [item.name for item in spec.guardrails]
    for name in sorted({name for name in names if names.count(name) > max(1, written.count(name))}):
        message = f"two guardrails come to the name {name}: a preset of several rules adds to its name"
        yield Problem(field="spec.guardrails", message=message)
    for adjustment in spec.rollback.adjust:
        yield from _adjustment(spec, adjustment, f"spec.rollback.adjust[{adjustment.parameter}]")


_ENDS = {OnExhausted.FAIL: "ends the job", OnExhausted.PAUSE: "pauses the job"}
_UNGUARDED = (
    "unguarded: only the default guardrails are on (non-finite values, failing rewards); add one with action Rollback"
)


def guardrail_warnings(spec: PPOJobSpec) -> Iterator[Problem]:
    """What is accepted and probably not meant."""
    guards = guards_of(spec)
    total, first, behind = spec.training.total_steps, spec.checkpoints.every_steps, window(spec)
    yield from _never_breached(guards, spec)
    yield from _ratio_of_rewards_below_0(guards, spec)
    if first > total:
        message = f"nothing is saved before the last step ({total}): a restart or rollback would begin anew"
        yield Problem(field="spec.checkpoints.everySteps", message=message)
    if not any(guard.rolls_back and not guard.about_finiteness for guard in guards):
        yield Problem(field="spec.guardrails", message=_UNGUARDED)
        return
    if not spec.rollback.adjust and spec.rollback.data is DataOrder.REPLAY:
        yield Problem(
            field="spec.rollback.adjust",
            message="nothing changes at a rollback, so the run may repeat itself: adjust LearningRate, for example, or "
            "set spec.rollback.data to SkipFailing",
        )
    if total >= first > total - behind:
        yield Problem(
            field="spec.checkpoints.everySteps",
            message=f"a rollback would have no target: the first checkpoint (step {first}) cannot be confirmed before "
            f"the last step ({total})",
        )
    elif first <= total and spec.checkpoints.resume_from is None:
        yield from _without_a_target(guards, spec)


def _without_a_target(guards: tuple[Guard, ...], spec: PPOJobSpec) -> Iterator[Problem]:
    """Steps that go bad before the first checkpoint is Confirmed keep it from being so."""
    first, behind = spec.checkpoints.every_steps, window(spec)
    confirmed, ends = first + behind, _ENDS[spec.rollback.on_exhausted]
    for guard in guards:
        if guard.source and guard.rolls_back and not guard.about_finiteness and guard.after_step < confirmed:
            yield Problem(
                field=f"spec.guardrails[{guard.source}].afterStep",
                message=f"can be breached from step {guard.after_step + guard.count} on, but nothing is Confirmed "
                f"before step {confirmed} (the first checkpoint, {first}, and {behind} clean steps), so that a breach "
                f"{ends}: save more often, or set afterStep to {confirmed}",
            )


def _ratio_of_rewards_below_0(guards: tuple[Guard, ...], spec: PPOJobSpec) -> Iterator[Problem]:
    terms = [term.name for term in spec.reward.terms if term.model is not None or term.training is not None]
    for guard in guards if terms else ():
        for condition in guard.conditions:
            if guard.source and condition.ratio is not None and _may_be_below_0(condition.metric, terms):
                yield Problem(
                    field=f"spec.guardrails[{guard.source}]",
                    message=f"a reward model's rewards (term {terms[0]}) are often below 0, and {condition.metric} is "
                    "not judged against a ratio of such: give a condition on it with by instead of ratio",
                )


def _may_be_below_0(metric: str | None, terms: list[str]) -> bool:
    of_reward = {"rewardMean", "rewardMin", "rewardMax", "validationReward", *(REWARD_TERM + name for name in terms)}
    return metric in of_reward


def _never_breached(guards: tuple[Guard, ...], spec: PPOJobSpec) -> Iterator[Problem]:
    total = spec.training.total_steps
    for guard in guards:
        if guard.source and guard.count > _observations(guard, spec):
            yield Problem(
                field=f"spec.guardrails[{guard.source}].afterStep",
                message=f"never breached: its first {guard.count} observations end after step {total}",
            )
        if guard.source and _binary(spec) and any(map(_beyond_binary, guard.conditions)):
            yield Problem(
                field=f"spec.guardrails[{guard.source}]",
                message=f"never breached: rewards of 0 and 1 have a rewardStd of at most {LARGEST_STD}",
            )


def _observations(guard: Guard, spec: PPOJobSpec) -> int:
    """How many count in the whole run. The last step is validated too, whatever the rhythm."""
    total, every = spec.training.total_steps, spec.training.validate_every_steps
    if not guard.validates or not every:
        return total - guard.after_step
    return -(-total // every) - guard.after_step // every


def _binary(spec: PPOJobSpec) -> bool:
    """Whether every reward is 0 or 1."""
    (first, *others), binary = spec.reward.terms, {RuleType.GSM8K, RuleType.MATH_EQUALITY, RuleType.EXACT_MATCH}
    return not others and first.weight == 1 and first.rule is not None and first.rule.type in binary


def _beyond_binary(condition: Condition) -> bool:
    return condition.metric == "rewardStd" and condition.above is not None and condition.above >= LARGEST_STD


def _guardrail(spec: PPOJobSpec, guardrail: Guardrail, path: str, *, prometheus: bool) -> Iterator[Problem]:
    if guardrail.preset is None and not guardrail.conditions:
        yield Problem(field=path, message="set preset, or conditions, or both")
    if guardrail.for_steps is not None and guardrail.failing is not None:
        yield Problem(field=f"{path}.failing", message="set forSteps or failing, not both")
    if guardrail.failing is not None and guardrail.failing.count > guardrail.failing.of:
        yield Problem(field=f"{path}.failing.count", message="must not exceed of")
    given = guardrail.conditions or []
    for index, condition in enumerate(given):
        yield from _condition(spec, condition, f"{path}.conditions[{index}]", prometheus=prometheus)
        yield from _contradicted(condition, given[:index], f"{path}.conditions[{index}]")
    guards = list(expand(guardrail))
    for guard in guards:
        for condition in guard.conditions:
            if condition not in given:
                yield from _of_preset(spec, condition, f"{path}.preset")
    used = [condition for guard in guards for condition in guard.conditions]
    for index, condition in enumerate(given):
        if condition not in used:
            message = f"preset {guardrail.preset} has several rules, and none about {condition.metric or 'a query'}"
            yield Problem(field=f"{path}.conditions[{index}].metric", message=message)


def _contradicted(condition: Condition, before: list[Condition], path: str) -> Iterator[Problem]:
    """Conditions hold together, so bounds that leave no value between them are never breached."""
    for other in before:
        floor, ceiling = _only(condition.above, other.above), _only(condition.below, other.below)
        same = condition.metric is not None and condition.metric == other.metric
        two_sided = any(item.above is not None and item.below is not None for item in (condition, other))
        if same and not two_sided and floor is not None and ceiling is not None and floor >= ceiling:
            yield Problem(
                field=path,
                message=f"never breached: conditions hold together, and no {condition.metric} is above {floor:g} and "
                f"below {ceiling:g}; for either of the two give one condition with both bounds",
            )


def _only(one: float | None, other: float | None) -> float | None:
    return one if other is None else other if one is None else None


def _of_preset(spec: PPOJobSpec, condition: Condition, path: str) -> Iterator[Problem]:
    """A condition that the user did not write: what is wrong with it is wrong with the preset here."""
    for problem in _figure(spec, condition, path):
        yield Problem(field=path, message=f"{problem.message} (or give conditions of your own)")


def _condition(spec: PPOJobSpec, condition: Condition, path: str, *, prometheus: bool) -> Iterator[Problem]:
    if (condition.metric is None) == (condition.promql is None):
        yield Problem(field=path, message="set exactly one of metric and promql")
    if condition.promql is not None and not prometheus:
        message = (
            "this operator has no Prometheus to ask: set the chart's prometheus.url (PPOJOB_OPERATOR_PROMETHEUS_URL), "
            "or use metric"
        )
        yield Problem(field=f"{path}.promql", message=message)
    if condition.relative_to is None:
        yield from _absolute(condition, path)
    else:
        yield from _relative(condition, path)
    yield from _figure(spec, condition, path)


def _absolute(condition: Condition, path: str) -> Iterator[Problem]:
    for name, value in (("ratio", condition.ratio), ("by", condition.by), ("bad", condition.bad)):
        if value is not None:
            yield Problem(field=f"{path}.{name}", message="goes with relativeTo only")
    if condition.above is None and condition.below is None:
        yield Problem(field=path, message="has no threshold: set above, below or both, or relativeTo")
    elif condition.above is not None and condition.below is not None and condition.below > condition.above:
        yield Problem(field=f"{path}.below", message="must not exceed above: every value would be a breach")


def _relative(condition: Condition, path: str) -> Iterator[Problem]:
    for name, value in (("above", condition.above), ("below", condition.below)):
        if value is not None:
            message = "does not go with relativeTo: a second condition on the same figure can have it"
            yield Problem(field=f"{path}.{name}", message=message)
    if (condition.ratio is None) == (condition.by is None):
        yield Problem(field=path, message="relativeTo needs exactly one of ratio and by")
    if condition.ratio is not None and (condition.ratio <= 0 or condition.ratio == 1):
        yield Problem(field=f"{path}.ratio", message="must be above 0 and not 1")
    if condition.by == 0:
        yield Problem(field=f"{path}.by", message="must not be 0")


def _figure(spec: PPOJobSpec, condition: Condition, path: str) -> Iterator[Problem]:
    if condition.metric is not None:
        yield from _metric(spec, condition.metric, f"{path}.metric")
    kl = spec.algorithm.kl
    if condition.metric == "kl" and condition.above is not None and kl.control is KLControl.ADAPTIVE:
        target = effective.kl_target(spec)
        if condition.above <= target:
            yield Problem(
                field=f"{path}.above",
                message=f"above of kl must exceed spec.algorithm.kl.target ({target:g}): control Adaptive steers to it",
            )


def _metric(spec: PPOJobSpec, metric: str, path: str) -> Iterator[Problem]:
    terms = [term.name for term in spec.reward.terms]
    if metric.startswith(REWARD_TERM) and metric.removeprefix(REWARD_TERM) not in terms:
        yield Problem(field=path, message=f"no reward term is called so; there are {', '.join(terms)}")
    if "/" in metric:
        return  # one of verl's own keys; whether it exists shows when the run logs it
    figure = FIGURES.get(metric)
    if figure is None:
        close = closest(metric, FIGURES)
        hint = f"did you mean {close}?" if close else "see docs/figures.md"
        yield Problem(field=path, message=f"unknown figure {metric!r}: {hint} (verl's own keys have a slash)")
    elif missing := next(filter(None, (_missing(spec, need) for need in figure.needs)), None):
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
