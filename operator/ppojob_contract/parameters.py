"""Parameters that a rollback can adjust: their names in `rollback.adjust` and in an attempt's settings."""

from enum import StrEnum


class Parameter(StrEnum):
    """Each is set in the live workers after every load: a checkpoint brings back the value it was saved with."""

    LEARNING_RATE = "LearningRate"
    CRITIC_LEARNING_RATE = "CriticLearningRate"
    KL_COEFFICIENT = "KLCoefficient"
    ENTROPY_COEFFICIENT = "EntropyCoefficient"
    CLIP_RATIO = "ClipRatio"
