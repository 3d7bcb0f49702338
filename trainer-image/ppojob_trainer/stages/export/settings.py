"""What `spec.export` says, as the operator renders it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self


class Format(StrEnum):
    MERGED = "Merged"
    ADAPTER = "Adapter"


class DType(StrEnum):
    """Of the weights, as torch calls it."""

    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSettings:
    checkpoint: str
    """Absolute path of a `global_step_N`."""
    model: str
    """What it was trained from."""
    trust_remote_code: bool
    format: Format
    dtype: DType | None
    """None: as trained."""
    card: Mapping[str, Any]
    """Facts for the model card."""
    target: str | None
    """Absolute path of a folder that is to appear."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError for what is no such settings."""
        dtype = value.get("dtype")
        return cls(
            checkpoint=value["checkpoint"],
            model=value["model"],
            trust_remote_code=bool(value.get("trustRemoteCode", False)),
            format=Format(value.get("format") or Format.MERGED),
            dtype=DType(dtype) if dtype else None,
            card=value.get("card") or {},
            target=value.get("target") or None,
        )
