"""What all API models share: camelCase on the wire, unknown fields refused, values never changed."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

MAX_ITEMS = 64


class Model(BaseModel):
    """Base of all API models."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


def rules(*pairs: tuple[str, str]) -> dict[str, Any]:
    """CEL validations for a schema: (rule, message that names the fix)."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]}


def list_map(*keys: str, **extra: Any) -> dict[str, Any]:
    """A list whose items are told apart by `keys` (server-side apply merges them; duplicates are refused)."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys), **extra}


Name = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")]
Text = Annotated[str, Field(min_length=1, max_length=1024)]
Path = Annotated[str, Field(min_length=1, max_length=1024)]
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
Whole = Annotated[int, Field(ge=0, le=1_000_000_000)]
Seconds = Annotated[int, Field(ge=1, le=31_536_000)]
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(gt=0, le=1)]
Quantity = Annotated[
    str, Field(min_length=1, max_length=32, pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$")
]
