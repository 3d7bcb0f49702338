"""Pydantic models as structural OpenAPI v3 schemas, as a CustomResourceDefinition may carry them.

Follows the rules of apiextensions' structural schemas. A construct that a CRD cannot carry, or a value without an
upper bound (CEL's cost is estimated from bounds), fails the build: a lenient schema is never emitted.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

Schema = dict[str, Any]

INT_OR_STRING = "x-kubernetes-int-or-string"
PRESERVE = "x-kubernetes-preserve-unknown-fields"
LIST_TYPE = "x-kubernetes-list-type"

_ALLOWED = frozenset(
    {
        "type", "format", "description", "default", "enum", "properties", "required", "items", "additionalProperties",
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "pattern",
        "minItems", "maxItems", "minProperties", "maxProperties", INT_OR_STRING, PRESERVE, LIST_TYPE,
        "x-kubernetes-list-map-keys", "x-kubernetes-validations",
    }
)  # fmt: skip

_INT_OR_STRING_FORM = [{"type": "integer"}, {"type": "string"}]


class UnsupportedSchema(Exception):
    """A model uses what a CRD cannot carry; the message has the path and the reason."""


class _Generator(GenerateJsonSchema):
    """JSON schema with Kubernetes' idea of absent values, bounds and sets."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        out = super().default_schema(schema)
        if "default" in out and out["default"] is None:
            del out["default"]
        factory = schema.get("default_factory")
        if isinstance(factory, type) and issubclass(factory, BaseModel):
            # Without a default of its own an absent map would stay absent, and the defaults inside with it. Written out
            # in full, since the API server evaluates CEL on a default as it stands.
            out.pop("default", None)
            if default := _without_empty(factory().model_dump(mode="json", by_alias=True, exclude_none=True)):
                out["default"] = default
        return out

    def int_schema(self, schema: core_schema.IntSchema) -> JsonSchemaValue:
        return _boolean_exclusive(super().int_schema(schema))

    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        return _boolean_exclusive(super().float_schema(schema))

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        out = super().literal_schema(schema)
        if "const" in out:
            out["enum"] = [out.pop("const")]
        return out


def _boolean_exclusive(schema: JsonSchemaValue) -> JsonSchemaValue:
    """OpenAPI v3.0 writes an exclusive bound as a bound and a flag."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if exclusive in schema:
            schema[bound], schema[exclusive] = schema[exclusive], True
    return schema


def structural(model: type[BaseModel], *, status: bool = False) -> Schema:
    """The model's schema, inlined and checked.

    `status`: written by one controller only, so nothing is defaulted there, and text that has no limit of its own
    gets `STATUS_TEXT`. Raises UnsupportedSchema.
    """
    raw = model.model_json_schema(by_alias=True, schema_generator=_Generator)
    schema: Schema = _inline(raw, raw.get("$defs", {}), ())
    if status:
        _as_status(schema)
    check(schema)
    return schema


STATUS_TEXT = 4096


def _inline(node: Any, definitions: Mapping[str, Any], above: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_inline(item, definitions, above) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        name = node["$ref"].removeprefix("#/$defs/")
        if name in above:
            raise UnsupportedSchema(f"{name} contains itself")
        # What stands beside the reference (description, default) is about this field and wins.
        node = {**definitions[name], **{key: value for key, value in node.items() if key != "$ref"}}
        above = (*above, name)
    return _tidy({key: _inline_member(key, value, definitions, above) for key, value in node.items()})


def _inline_member(key: str, value: Any, definitions: Mapping[str, Any], above: tuple[str, ...]) -> Any:
    if key == "properties":
        return {name: _inline(item, definitions, above) for name, item in value.items()}
    return value if key in {"default", "enum"} else _inline(value, definitions, above)


def _tidy(node: Schema) -> Schema:
    """Without what the API server does itself (pruning) or has no use for (titles)."""
    node.pop("title", None)
    node.pop("$defs", None)
    if node.get("additionalProperties") is False or node.get(PRESERVE):
        node.pop("additionalProperties", None)
    if node.get(PRESERVE) and "anyOf" in node:
        # Any scalar: the API server keeps it as it is.
        node.pop("anyOf")
    if "description" in node:
        node["description"] = " ".join(node["description"].split())
    return node


def _without_empty(value: dict[str, Any]) -> dict[str, Any]:
    """Empty lists and maps are as good as absent, and need not be in every stored object."""
    kept = {key: _without_empty(item) if isinstance(item, dict) else item for key, item in value.items()}
    return {key: item for key, item in kept.items() if item not in ({}, [])}


def _as_status(node: Schema) -> None:
    node.pop("default", None)
    if node.get("type") == "string" and not {"enum", "format", "maxLength"} & node.keys():
        node["maxLength"] = STATUS_TEXT
    for _, child in children(node, ""):
        _as_status(child)


def children(node: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """Schemas directly below, with their paths."""
    for name, child in node.get("properties", {}).items():
        yield f"{path}.{name}", child
    if "items" in node:
        yield f"{path}[]", node["items"]
    if isinstance(node.get("additionalProperties"), dict):
        yield f"{path}{{}}", node["additionalProperties"]


def check(node: Schema, path: str = "") -> None:
    """Raises UnsupportedSchema for what the API server would refuse or CEL could not bound."""

    def fail(reason: str) -> None:
        raise UnsupportedSchema(f"{path or 'root'}: {reason}")

    unknown = node.keys() - _ALLOWED - ({"anyOf"} if node.get(INT_OR_STRING) else set())
    if unknown:
        fail(f"{', '.join(sorted(unknown))} cannot be in a structural schema")
    if node.get(INT_OR_STRING):
        if node.get("anyOf") != _INT_OR_STRING_FORM:
            fail("int-or-string needs exactly an integer and a string")
    elif "type" not in node and not node.get(PRESERVE):
        fail("no type (a union?)")
    if reason := _unbounded(node):
        fail(reason)
    if reason := _bad_list_map(node):
        fail(reason)
    for child_path, child in children(node, path):
        check(child, child_path)


def _unbounded(node: Schema) -> str | None:
    match node.get("type"):
        case "string" if not {"maxLength", "enum"} & node.keys() and node.get("format") != "date-time":
            return "a string needs maxLength"
        case "array" if "maxItems" not in node:
            return "a list needs maxItems"
        case "object" if "additionalProperties" in node and "maxProperties" not in node:
            return "a map needs maxProperties"
        case _:
            return None


def _bad_list_map(node: Schema) -> str | None:
    keys = node.get("x-kubernetes-list-map-keys", ())
    if (node.get(LIST_TYPE) == "map") != bool(keys):
        return "list type map and its keys go together"
    item = node.get("items", {})
    missing = [key for key in keys if key not in item.get("required", ())]
    return f"list-map key {missing[0]} must be required" if missing else None
