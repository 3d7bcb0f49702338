"""The generated CRD, linted by the rules of structural schemas (written down again here, not taken from the code)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml
from pydantic import Field
from tests.support.examples import NAMES, ROOT, accepted_spec, ppojob
from tests.support.schema import CRD, SCHEMA, SPEC_SCHEMA, VERSION, filled

from ppojob_operator.api.v1alpha1.base import Model
from ppojob_operator.codegen.__main__ import CRD_FILE, generated, main
from ppojob_operator.codegen.reference import fields_page
from ppojob_operator.codegen.schema import UnsupportedSchema, structural

FORBIDDEN = {
    "$ref", "$defs", "definitions", "oneOf", "allOf", "not", "const", "prefixItems", "patternProperties",
    "propertyNames", "discriminator", "readOnly", "deprecated", "uniqueItems", "title", "nullable",
}  # fmt: skip


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from nodes(node[key], f"{path}.{key}")


ALL = list(nodes(SCHEMA))
BELOW_SPEC = [(path, node) for path, node in ALL if path.startswith((".spec", ".status"))]


def test_no_node_has_what_a_structural_schema_may_not() -> None:
    for path, node in ALL:
        assert not FORBIDDEN & node.keys(), path
        assert "additionalProperties" not in node or "properties" not in node, path
        assert node.get("additionalProperties") is not False, path
        if node.get("x-kubernetes-int-or-string"):
            assert node["anyOf"] == [{"type": "integer"}, {"type": "string"}], path
        else:
            assert "anyOf" not in node, path
            assert "type" in node or node.get("x-kubernetes-preserve-unknown-fields"), path
        for bound in ("exclusiveMinimum", "exclusiveMaximum"):
            assert isinstance(node.get(bound, True), bool), path


def test_everything_has_an_upper_bound() -> None:
    for path, node in BELOW_SPEC:
        match node.get("type"):
            case "string":
                assert node.keys() & {"maxLength", "enum"} or node.get("format") == "date-time", path
            case "array":
                assert "maxItems" in node, path
            case "object" if "additionalProperties" in node:
                assert "maxProperties" in node, path


def test_keys_of_list_maps_are_required() -> None:
    for path, node in ALL:
        for key in node.get("x-kubernetes-list-map-keys", ()):
            assert key in node["items"]["required"], path


def test_every_field_of_the_spec_is_described() -> None:
    undescribed = [path for path, node in ALL if path.startswith(".spec") and "description" not in node]
    assert [path for path in undescribed if not path.endswith((".items", ".additionalProperties"))] == []


def test_status_has_no_defaults() -> None:
    assert [path for path, node in ALL if path.startswith(".status") and "default" in node] == []


def test_nested_defaults_apply() -> None:
    """A map whose parts have defaults has one itself, or they never apply where the map is absent."""
    algorithm = SPEC_SCHEMA["properties"]["algorithm"]
    assert algorithm["default"]["kl"]["coefficient"] == algorithm["properties"]["kl"]["default"]["coefficient"] == 0.001
    assert "default" not in SPEC_SCHEMA["properties"]["trainer"]


def test_defaults_in_the_schema_are_the_models() -> None:
    """An object that the API server filled in parses to the same spec."""
    for name in NAMES:
        raw = ppojob(name)["spec"]
        assert accepted_spec(filled(raw, SPEC_SCHEMA)) == accepted_spec(raw)


def test_names_and_columns() -> None:
    assert CRD["metadata"]["name"] == "ppojobs.rlhf.dev"
    assert CRD["spec"]["names"]["shortNames"] == ["ppo"]
    columns = VERSION["additionalPrinterColumns"]
    shown = [column["name"] for column in columns if not column.get("priority")]
    assert shown == ["Phase", "Stage", "Step", "Reward", "KL", "Attempt", "Rollbacks", "Age"]
    assert VERSION["subresources"] == {"status": {}}


def test_columns_point_at_fields() -> None:
    for column in VERSION["additionalPrinterColumns"]:
        node = SCHEMA
        _, first, *rest = column["jsonPath"].split(".")
        if first == "metadata":
            continue
        for part in (first, *rest):
            node = node["properties"][part]
        assert node["type"] == column["type"], column["name"]


def test_generated_files_are_current() -> None:
    assert main(["--check", "--root", str(ROOT)]) == 0


def test_a_stale_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(tmp_path)]) == 0
    assert main(["--check", "--root", str(tmp_path)]) == 0
    (tmp_path / CRD_FILE).write_text("other")
    assert main(["--check", "--root", str(tmp_path)]) == 1
    assert CRD_FILE in capsys.readouterr().err


def test_the_file_has_no_anchors_and_is_the_crd() -> None:
    text = generated()[CRD_FILE]
    assert yaml.safe_load(text) == CRD
    assert "&id" not in text
    assert len(text.encode()) < 200_000


class Inner(Model):
    """A model in a model."""

    name: Annotated[str, Field(max_length=1)]


class Recursive(Model):
    """One that contains itself."""

    inner: "Recursive | None" = None


def model_of(annotation: Any) -> type[Model]:
    return type("Made", (Model,), {"__annotations__": {"field": annotation}, "__module__": __name__})


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (str, "maxLength"),
        (list[int], "maxItems"),
        (dict[str, int], "maxProperties"),
        (int | bool, "anyOf"),
        (tuple[int, str], "prefixItems"),
        (
            Annotated[dict[Annotated[str, Field(pattern="a")], int], Field(max_length=1)],
            "patternProperties|propertyNames",
        ),
        (Annotated[set[int], Field(max_length=1)], "uniqueItems"),
        (Annotated[list[Inner], Field(max_length=1, json_schema_extra={"x-kubernetes-list-type": "map"})], "keys"),
    ],
)
def test_what_a_crd_cannot_carry_fails_the_build(annotation: Any, reason: str) -> None:
    with pytest.raises(UnsupportedSchema, match=reason):
        structural(model_of(annotation))


def test_a_model_in_itself_fails_the_build() -> None:
    with pytest.raises(UnsupportedSchema, match="contains itself"):
        structural(Recursive)


def test_one_word_is_an_enum() -> None:
    assert structural(model_of(Literal["a"]))["properties"]["field"]["enum"] == ["a"]


@pytest.mark.parametrize(
    ("bounds", "shown"),
    [
        ({"minimum": 0, "maximum": 1}, "number, ≥ 0, ≤ 1"),
        ({"minimum": 0, "exclusiveMinimum": True, "maximum": 1}, "number, > 0, ≤ 1"),
        ({"minimum": 0, "maximum": 1, "exclusiveMaximum": True}, "number, ≥ 0, < 1"),
    ],
)
def test_the_reference_page_tells_a_bound_that_is_refused_from_one_that_is_not(
    bounds: dict[str, Any], shown: str
) -> None:
    spec = {"type": "object", "properties": {"share": {"type": "number", **bounds}}}
    page = fields_page({"properties": {"spec": spec, "status": {"type": "object", "properties": {}}}})
    assert f"| {shown} |" in page
