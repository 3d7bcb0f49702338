"""What the policy is rewarded for."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from ppojob_operator.api.v1alpha1.base import Model, Name, ObjectName, Path, list_map, rules
from ppojob_operator.api.v1alpha1.reward_scoring import RewardScoring
from ppojob_operator.api.v1alpha1.reward_training import RewardTraining


class RuleType(StrEnum):
    """Rules that need no model."""

    GSM8K = "GSM8K"
    MATH_EQUALITY = "MathEquality"
    EXACT_MATCH = "ExactMatch"
    REGEX = "Regex"
    OVERLONG = "Overlong"


class AnswerFormat(StrEnum):
    """Where GSM8K looks for the answer."""

    FLEXIBLE = "Flexible"
    STRICT = "Strict"


class RegexMode(StrEnum):
    """What a regular expression's reward is."""

    MATCH = "Match"
    SHARE = "Share"


class RewardRule(Model):
    """A reward computed from the response's text and the row's ground truth."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "(self.type == 'Regex') == has(self.pattern)",
                "pattern goes with type Regex, and only with it",
                ".pattern",
            ),
            ("self.type == 'Regex' || !has(self.mode)", "mode goes with type Regex only", ".mode"),
            ("self.type == 'GSM8K' || !has(self.format)", "format goes with type GSM8K only", ".format"),
            (
                "(self.type == 'Overlong') == has(self.bufferTokens)",
                "bufferTokens goes with type Overlong, and only with it",
                ".bufferTokens",
            ),
        )
    )
    type: RuleType = Field(
        description="GSM8K: the number after '####' equals the ground truth; MathEquality: the final answer (boxed, "
        "behind '####' or 'answer is') equals it as mathematics; ExactMatch: the stripped response equals it; Regex: "
        "see mode; Overlong: 0, and from maxResponseLength - bufferTokens on down to -1 at maxResponseLength"
    )
    format: AnswerFormat | None = Field(
        default=None,
        description="Of GSM8K. Flexible (default): the last number where there is no '####'; Strict: 0 without '####'",
    )
    buffer_tokens: Annotated[int, Field(ge=1, le=1_048_576)] | None = Field(
        default=None, description="Of Overlong: how many tokens before maxResponseLength the penalty begins"
    )
    pattern: Annotated[str, Field(min_length=1, max_length=1024)] | None = Field(
        default=None, description="Python regular expression, for type Regex"
    )
    mode: RegexMode | None = Field(
        default=None, description="Match (default): 1 where the pattern is found; Share: share of matched characters"
    )


class RewardFunction(Model):
    """A user's Python function, run in trainer pods only."""

    config_map: ObjectName = Field(description="ConfigMap in the job's namespace that holds the file")
    key: Annotated[str, Field(min_length=4, max_length=253, pattern=r"^[-._a-zA-Z0-9]+\.py$")] = Field(
        default="reward.py", description="The ConfigMap's key, a Python file"
    )
    name: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = Field(
        default="compute_score",
        description="Called with data_source, solution_str, ground_truth, extra_info; returns a number or a map with "
        "'score'",
    )


class RewardModel(RewardScoring):
    """A given reward model: a sequence classifier with one label, whose logit is the score."""

    path: Path = Field(description="Path in the trainer's pods, or a Hugging Face name")


_KINDS = ("rule", "__function__", "model", "training")


class RewardTerm(Model):
    """One part of the reward."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                f"[{', '.join(f'has(self.{kind})' for kind in _KINDS)}].filter(x, x).size() == 1",
                "set exactly one of rule, function, model, training",
            ),
        )
    )
    name: Name = Field(description="Also the name of the term's own figure")
    weight: float = Field(default=1.0, description="Factor in the sum; may be negative")
    rule: RewardRule | None = Field(default=None, description="A rule that needs no model")
    function: RewardFunction | None = Field(default=None, description="A Python function from a ConfigMap")
    model: RewardModel | None = Field(default=None, description="A reward model")
    training: RewardTraining | None = Field(
        default=None, description="A reward model that is trained here first, on pairs of answers; in one term only"
    )


class Reward(Model):
    """Weighted sum of its terms."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "self.terms.filter(term, has(term.training)).size() <= 1",
                "only one term can have training",
                ".terms",
            ),
        )
    )
    terms: Annotated[list[RewardTerm], Field(min_length=1, max_length=16, json_schema_extra=list_map("name"))] = Field(
        description="Parts of the reward"
    )
    timeout_seconds: Annotated[int, Field(ge=1, le=3600)] = Field(
        default=30, description="For one call of a function; a call that takes longer counts as failed"
    )
