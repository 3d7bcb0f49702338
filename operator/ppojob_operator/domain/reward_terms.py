"""Reward terms as the trainer reads them (`ppojob_trainer.rewards.terms`): all defaults filled in."""

from typing import Any

from ppojob_operator.api.v1alpha1.reward import RewardModel, RewardRule, RewardTerm, RuleType
from ppojob_operator.api.v1alpha1.spec import PPOJobSpec
from ppojob_operator.domain import effective
from ppojob_operator.domain.functions import reward_folder

DEFAULT_MEMORY_FRACTION = 0.3
_TEMPLATE_TOKENS = 256
"""What a reward model's chat template may add, and its tokenizer split otherwise."""


def told_terms(spec: PPOJobSpec) -> list[dict[str, Any]]:
    """All terms of a spec whose stages are resolved."""
    return [told_term(term, spec) for term in spec.reward.terms]


def told_term(item: RewardTerm, spec: PPOJobSpec) -> dict[str, Any]:
    """A function by its path in the pods, a length by what it is compared with."""
    value: dict[str, Any] = {"name": item.name, "weight": item.weight}
    if item.rule is not None:
        value["rule"] = _rule(item.rule, spec)
    if item.function is not None:
        value["function"] = {
            "path": f"{reward_folder(item.name)}/{item.function.key}",
            "name": item.function.name,
            "timeoutSeconds": spec.reward.timeout_seconds,
        }
    if item.model is not None:
        value["model"] = told_model(item.model, spec)
    return value


def told_model(item: RewardModel, spec: PPOJobSpec) -> dict[str, Any]:
    """A reward model, given or trained by the job."""
    return {
        "path": item.path,
        "engine": effective.reward_engine(item, spec).value,
        "tensorParallelSize": item.tensor_parallel_size or 1,
        "memoryFraction": item.memory_fraction or DEFAULT_MEMORY_FRACTION,
        "maxLength": item.max_length or spec.data.max_prompt_length + spec.data.max_response_length + _TEMPLATE_TOKENS,
        "trustRemoteCode": spec.model.trust_remote_code,
    }


def _rule(rule: RewardRule, spec: PPOJobSpec) -> dict[str, Any]:
    value = rule.model_dump(mode="json", by_alias=True, exclude_none=True)
    return value | ({"maxTokens": spec.data.max_response_length} if rule.type is RuleType.OVERLONG else {})
