"""What all API models share: camelCase on the wire, unknown fields refused, values never changed."""

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel


def _wire_name(name: str) -> str:
    """`job_uid` is `jobUID` on the wire, as Kubernetes writes it."""
    return re.sub("Uid$", "UID", to_camel(name))


class Model(BaseModel):
    """Base of all API models."""

    model_config = ConfigDict(alias_generator=_wire_name, populate_by_name=True, extra="forbid", frozen=True)


class StatusModel(Model):
    """Status fields of a later version are passed over, so that an operator can be downgraded."""

    model_config = ConfigDict(extra="ignore")


def rules(*entries: tuple[str, str] | tuple[str, str, str]) -> dict[str, Any]:
    """CEL validations for a schema: (rule, message that names the fix[, path of the field to blame])."""
    found = []
    for rule, message, *path in entries:
        found.append({"rule": rule, "message": message} | ({"fieldPath": path[0]} if path else {}))
    return {"x-kubernetes-validations": found}


def list_map(*keys: str) -> dict[str, Any]:
    """A list whose items are told apart by `keys` (server-side apply merges them; duplicates are refused)."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


FREE_FORM: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}
"""Schema of what the API server stores as it is; `domain.acceptance` judges it."""

QUANTITY_PATTERN = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$"


def _quantity_text(value: Any) -> Any:
    """YAML's `cpu: 8` is a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


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
    str,
    BeforeValidator(_quantity_text),
    Field(min_length=1, max_length=32, pattern=QUANTITY_PATTERN),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "minimum": 0,
            "maxLength": 32,
            "pattern": QUANTITY_PATTERN,
        }
    ),
]
"""As of a container's resources: text, or a whole number."""
