"""What `PPOJob.status` says of the prompts."""

from typing import Annotated

from pydantic import Field

from ppojob_operator.api.v1alpha1.base import StatusModel


class Steps(StatusModel):
    """Steps of one attempt, both ends included."""

    attempt: int
    first: int
    last: int


class DataPlanStatus(StatusModel):
    """Which prompts an attempt gets."""

    skip: Annotated[list[Steps], Field(max_length=32)] = Field(
        default_factory=list, description="Steps whose batches are passed over when the order of the data comes to them"
    )
    reshuffle: int = Field(default=0, description="How often rollbacks have shuffled the data anew")
    incident: Annotated[list[Steps], Field(max_length=32)] = Field(
        default_factory=list, description="Steps that led to the last rollback; their samples are kept"
    )
