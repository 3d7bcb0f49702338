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


class Hub(StrEnum):
    """Where names that are no paths are looked up."""

    HUGGING_FACE = "HuggingFace"
    MODEL_SCOPE = "ModelScope"
