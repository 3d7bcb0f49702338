"""The generated CRD's schema, and what the API server does with it."""

from typing import Any

from ppojob_operator.codegen.crd import custom_resource_definition

CRD: dict[str, Any] = custom_resource_definition()
VERSION: dict[str, Any] = CRD["spec"]["versions"][0]
SCHEMA: dict[str, Any] = VERSION["schema"]["openAPIV3Schema"]
SPEC_SCHEMA: dict[str, Any] = SCHEMA["properties"]["spec"]


def filled(value: Any, schema: dict[str, Any]) -> Any:
    """The value with defaults, as the API server fills them in."""
    if isinstance(value, list):
        return [filled(item, schema.get("items", {})) for item in value]
    if not isinstance(value, dict) or "properties" not in schema:
        return value
    defaults = {key: child["default"] for key, child in schema["properties"].items() if "default" in child}
    return {key: filled(item, schema["properties"][key]) for key, item in (defaults | value).items()}
