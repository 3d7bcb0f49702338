"""`PPOJob.spec.samples`: what is kept of what the model wrote."""

from typing import Annotated

from pydantic import Field

from ppojob_operator.api.v1alpha1.base import Count, Model


class Samples(Model):
    """Prompts, responses and rewards of steps, as JSON lines beside the journal. Takes effect with the next attempt."""

    train_every_steps: Count = Field(
        default=10, description="Training steps between kept files; the newest steps are there for a while in any case"
    )
    keep_last: Annotated[int, Field(ge=0, le=100_000)] = Field(
        default=200, description="Files kept of each attempt, of training and of validation; older ones are deleted"
    )
    validation: bool = Field(default=True, description="Whether validations leave a file too")
