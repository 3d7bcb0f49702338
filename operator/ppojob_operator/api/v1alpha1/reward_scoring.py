"""How a reward model, given or trained by the job, scores answers in training."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from ppojob_operator.api.v1alpha1.base import Model


class RewardEngine(StrEnum):
    """What a reward model runs in."""

    VLLM = "VLLM"
    SGLANG = "SGLang"
    TRANSFORMERS = "Transformers"


class RewardScoring(Model):
    """Of one reward model."""

    engine: RewardEngine | None = Field(
        default=None,
        description="VLLM or SGLang: on the job's devices, after generation, one such term at most; Transformers: on "
        "the processor, during it. Default: that of the rollout",
    )
    tensor_parallel_size: Annotated[int, Field(ge=1, le=64)] | None = Field(
        default=None, description="Devices of one engine; default 1"
    )
    memory_fraction: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None, description="Share of the devices' memory for the engine while it scores; default 0.3"
    )
    max_length: Annotated[int, Field(ge=16, le=1_048_576)] | None = Field(
        default=None,
        description="Tokens that the model reads at most, of what is longer the end; default maxPromptLength + "
        "maxResponseLength + 256",
    )
