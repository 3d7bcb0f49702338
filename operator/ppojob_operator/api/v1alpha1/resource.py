"""The PPOJob object as the operator reads it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ppojob_operator.api.v1alpha1.status import PPOJobStatus

GROUP = "rlhf.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "PPOJob"
PLURAL = "ppojobs"


@dataclass(frozen=True, slots=True, kw_only=True)
class PPOJob:
    """Identity, raw spec and parsed status. The spec is parsed by `domain.acceptance`, since it may be refused."""

    namespace: str
    name: str
    uid: str
    generation: int
    resource_version: str
    created: datetime
    deleting: bool
    raw_spec: dict[str, Any]
    status: PPOJobStatus

    @classmethod
    def from_object(cls, value: dict[str, Any]) -> "PPOJob":
        """From the API server's JSON. Raises KeyError or pydantic.ValidationError for what is not a PPOJob."""
        metadata = value["metadata"]
        return cls(
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            generation=metadata["generation"],
            resource_version=metadata["resourceVersion"],
            created=datetime.fromisoformat(metadata["creationTimestamp"]),
            deleting="deletionTimestamp" in metadata,
            raw_spec=value["spec"],
            status=PPOJobStatus.model_validate(value.get("status") or {}),
        )
