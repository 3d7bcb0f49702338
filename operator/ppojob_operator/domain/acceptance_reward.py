"""Rewards that could never be given."""

import re
from collections.abc import Iterator

from ppojob_operator.api.v1alpha1.reward import RewardRule, RewardTerm, RuleType
from ppojob_operator.api.v1alpha1.reward_scoring import RewardEngine, RewardScoring
from ppojob_operator.api.v1alpha1.spec import Device, PPOJobSpec
from ppojob_operator.domain import effective
from ppojob_operator.domain.observation import Problem


def reward_problems(spec: PPOJobSpec) -> Iterator[Problem]:
    """Of `spec.reward`."""
    served = ""
    for term in spec.reward.terms:
        path = f"spec.reward.terms[{term.name}]"
        yield from _term(term, path, spec)
        scoring, where = (term.training.scoring, "training.scoring") if term.training else (term.model, "model")
        if scoring is None:
            continue
        yield from _scoring(scoring, f"{path}.{where}", spec)
        if effective.reward_engine(scoring, spec) is RewardEngine.TRANSFORMERS:
            continue
        if served:
            message = f"verl serves one reward model, that of {served}: give one of them engine Transformers"
            yield Problem(field=f"{path}.{where}.engine", message=message)
        served = served or term.name


def _term(term: RewardTerm, path: str, spec: PPOJobSpec) -> Iterator[Problem]:
    kinds = [item for item in (term.rule, term.function, term.model, term.training) if item is not None]
    if len(kinds) != 1:
        yield Problem(field=path, message="set exactly one of rule, function, model, training")
    if term.rule is not None:
        yield from _rule(term.rule, f"{path}.rule", spec)


def _rule(rule: RewardRule, path: str, spec: PPOJobSpec) -> Iterator[Problem]:
    if (rule.type is RuleType.REGEX) != (rule.pattern is not None):
        yield Problem(field=f"{path}.pattern", message="goes with type Regex, and only with it")
    if rule.type is not RuleType.REGEX and rule.mode is not None:
        yield Problem(field=f"{path}.mode", message="goes with type Regex only")
    if rule.type is not RuleType.GSM8K and rule.format is not None:
        yield Problem(field=f"{path}.format", message="goes with type GSM8K only")
    if (rule.type is RuleType.OVERLONG) != (rule.buffer_tokens is not None):
        yield Problem(field=f"{path}.bufferTokens", message="goes with type Overlong, and only with it")
    longest = spec.data.max_response_length
    if rule.buffer_tokens is not None and rule.buffer_tokens > longest:
        message = f"must not exceed spec.data.maxResponseLength, which is {longest}"
        yield Problem(field=f"{path}.bufferTokens", message=message)
    if rule.pattern is not None:
        try:
            re.compile(rule.pattern)
        except re.error as error:
            yield Problem(field=f"{path}.pattern", message=f"is no Python regular expression: {error}")


def _scoring(scoring: RewardScoring, path: str, spec: PPOJobSpec) -> Iterator[Problem]:
    if effective.reward_engine(scoring, spec) is RewardEngine.TRANSFORMERS:
        for name in ("tensor_parallel_size", "memory_fraction"):
            if getattr(scoring, name) is not None:
                field = f"{path}.{RewardScoring.model_fields[name].alias}"
                yield Problem(field=field, message="goes with engine VLLM or SGLang only")
        return
    if spec.cluster.device is Device.CPU:
        message = "goes with accelerators only: on spec.cluster.device CPU use Transformers"
        yield Problem(field=f"{path}.engine", message=message)
    devices, parallel = effective.devices(spec), scoring.tensor_parallel_size or 1
    if devices % parallel:
        message = f"must divide the {devices} devices of spec.cluster"
        yield Problem(field=f"{path}.tensorParallelSize", message=message)
