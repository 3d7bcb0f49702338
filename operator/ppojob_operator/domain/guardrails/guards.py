"""What a spec's guardrails, presets and defaults come to: one form for all of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ppojob_contract.figures import FIGURES, Need
from ppojob_operator.api.v1alpha1.guardrails import Condition, Guardrail, GuardrailAction, Preset
from ppojob_operator.api.v1alpha1.spec import PPOJobSpec
from ppojob_operator.domain.effective import has_critic
from ppojob_operator.domain.guardrails.bounds import only_finite
from ppojob_operator.domain.guardrails.presets import DEFAULTS, PRESETS, Rule

MISSING_AFTER_ROWS = 20


@dataclass(frozen=True, kw_only=True)
class Guard:
    """One guardrail with every choice made. Bad for three steps is three bad ones of the last three observations."""

    name: str
    conditions: tuple[Condition, ...]
    count: int = 1
    of: int = 1
    after_step: int = 0
    action: GuardrailAction = GuardrailAction.WARN
    dry_run: bool = False
    source: str = ""
    """The guardrail of the spec that it comes from; empty for a default one."""
    preset: Preset | None = None
    missing_after: int = MISSING_AFTER_ROWS
    """A figure not seen in so many step rows is reported as missing."""

    @property
    def acts(self) -> bool:
        return self.action is not GuardrailAction.WARN and not self.dry_run

    @property
    def rolls_back(self) -> bool:
        return self.action is GuardrailAction.ROLLBACK and not self.dry_run

    @cached_property
    def about_finiteness(self) -> bool:
        """Whether finite values never breach it."""
        return all(only_finite(condition) for condition in self.conditions)

    @cached_property
    def validates(self) -> bool:
        """Whether its observations are validations: the figure that comes most seldom is counted."""
        return any(is_validation_metric(condition.metric) for condition in self.conditions)


def is_validation_metric(metric: str | None) -> bool:
    """Whether only validation rows carry it."""
    if metric is None:
        return False
    figure = FIGURES.get(metric)
    return metric.startswith("val-") or (figure is not None and Need.VALIDATION in figure.needs)


def guards_of(spec: PPOJobSpec) -> tuple[Guard, ...]:
    """All guards of a spec: its own in their order, then the default presets that it neither lists nor declines."""
    listed = [guard for guardrail in spec.guardrails for guard in expand(guardrail)]
    # verl logs no figure of the actor while only the critic is trained.
    quiet = spec.training.critic_warmup_steps if has_critic(spec) else 0
    return tuple(replace(guard, missing_after=MISSING_AFTER_ROWS + quiet) for guard in (*listed, *default_guards(spec)))


def default_guards(spec: PPOJobSpec) -> tuple[Guard, ...]:
    if not spec.default_guardrails:
        return ()
    presets = {guardrail.preset for guardrail in spec.guardrails}
    return tuple(
        rule_guard(rule, default_name(preset, rule), preset)
        for preset in DEFAULTS
        if preset not in presets
        for rule in PRESETS[preset].rules
    )


def expand(guardrail: Guardrail) -> Iterator[Guard]:
    """The guards that one guardrail stands for: several where its preset has several rules."""
    rules = PRESETS[guardrail.preset].rules if guardrail.preset else (Rule(conditions=()),)
    for rule in rules:
        yield _overridden(guardrail, rule, only=len(rules) == 1)


def _overridden(guardrail: Guardrail, rule: Rule, *, only: bool) -> Guard:
    """Of several rules, those that only warn stay as they are, and none gets a condition on another figure."""
    count, of, conditions, action = rule.count, rule.of, rule.conditions, rule.action
    if only or rule.action is not GuardrailAction.WARN:
        known = {condition.metric for condition in rule.conditions}
        given = [condition for condition in guardrail.conditions or () if only or condition.metric in known]
        conditions = _merged(rule.conditions, given)
        action = guardrail.action or rule.action
        if guardrail.for_steps is not None:
            count = of = guardrail.for_steps
        elif guardrail.failing is not None:
            count, of = guardrail.failing.count, guardrail.failing.of
    return Guard(
        name=_name(guardrail.name, rule),
        conditions=conditions,
        count=count,
        of=of,
        after_step=rule.after_step if guardrail.after_step is None else guardrail.after_step,
        action=action,
        dry_run=guardrail.dry_run,
        source=guardrail.name,
        preset=guardrail.preset,
    )


def _merged(preset: Sequence[Condition], given: Sequence[Condition]) -> tuple[Condition, ...]:
    """Given conditions in the place of the preset's on the same metric."""
    replaced = {condition.metric for condition in given}
    return (*(condition for condition in preset if condition.metric not in replaced), *given)


def _name(name: str, rule: Rule) -> str:
    return f"{name}-{rule.suffix}" if rule.suffix else name


def default_name(preset: Preset, rule: Rule) -> str:
    """The preset's own, which no guardrail of a spec can have: those are lower case."""
    return _name(preset.value, rule)


def rule_guard(rule: Rule, name: str, preset: Preset) -> Guard:
    """The rule as it stands."""
    return Guard(
        name=name,
        conditions=rule.conditions,
        count=rule.count,
        of=rule.of,
        after_step=rule.after_step,
        action=rule.action,
        preset=preset,
    )
