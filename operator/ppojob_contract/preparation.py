"""Words of `spec.data.prepare` that both sides use."""

from enum import StrEnum


class Recipe(StrEnum):
    """How a source's rows are read."""

    GSM8K = "GSM8K"
    HHRLHF = "HHRLHF"
    PROMPTS = "Prompts"
    PAIRS = "Pairs"
    FUNCTION = "Function"


class Use(StrEnum):
    """What a source's rows are for."""

    PROMPTS = "Prompts"
    PAIRS = "Pairs"
    BOTH = "Both"


USES = {
    Recipe.GSM8K: Use.PROMPTS,
    Recipe.HHRLHF: Use.BOTH,
    Recipe.PROMPTS: Use.PROMPTS,
    Recipe.PAIRS: Use.PAIRS,
    Recipe.FUNCTION: Use.PROMPTS,
}
"""What a recipe's rows are for where the source does not say it."""


class Hub(StrEnum):
    """Where names that are no paths are looked up."""

    HUGGING_FACE = "HuggingFace"
    MODEL_SCOPE = "ModelScope"
