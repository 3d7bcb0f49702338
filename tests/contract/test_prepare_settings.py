"""What the operator tells Prepare and Export is what they read: no field unread, no word unknown."""

import json
from dataclasses import fields
from typing import Any

import pytest
from tests.support.builders import spec
from tests.support.examples import NAMES, accepted

from ppojob_contract.preparation import Hub, Use
from ppojob_operator.api.v1alpha1.evaluation import ExportFormat, ExportType
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.pipeline import after
from ppojob_operator.domain.pipeline.settings import prepare_work
from ppojob_trainer.stages.export.settings import DType, Format
from ppojob_trainer.stages.prepare.settings import PrepareSettings, Source

READ_BY_NOBODY = {"revision"}
"""Only there to make another key."""


def rendered(job: AcceptedJob) -> dict[str, Any]:
    work = prepare_work(job)
    assert work is not None
    told: dict[str, Any] = json.loads(json.dumps(work.settings))
    return told


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def test_an_example_prepares() -> None:
    assert [name for name in NAMES if accepted(name).spec.data.prepare is not None]


@pytest.mark.parametrize("name", [name for name in NAMES if accepted(name).spec.data.prepare is not None])
def test_examples_are_understood(name: str) -> None:
    told = rendered(accepted(name))
    read = PrepareSettings.from_json(told)
    assert {camel(field.name) for field in fields(read)} | READ_BY_NOBODY == set(told)
    for source, item in zip(read.sources, told["sources"], strict=True):
        assert {camel(field.name) for field in fields(Source)} == set(item)
        assert (source.name, source.recipe, source.use, list(source.files)) == (
            item["name"],
            item["recipe"],
            item["use"],
            item["files"],
        )


def test_all_words_are_known() -> None:
    assert {item.value for item in ExportFormat} == {item.value for item in Format}
    assert {after._TYPES[item.value] for item in ExportType} <= {item.value for item in DType}


def test_a_function_and_every_field() -> None:
    """What no example sets."""
    source = {
        "name": "mine",
        "recipe": "Function",
        "files": ["/ppojob/storage/raw/a.jsonl", "org/set"],
        "hub": "ModelScope",
        "configuration": "main",
        "split": "test",
        "revision": "v2",
        "use": "Both",
        "ability": "speech",
        "maxRows": 7,
        "function": {"configMap": "functions", "key": "mine.py", "name": "make"},
    }
    job = AcceptedJob(
        namespace="n",
        name="j",
        uid="0a1b2c3d-4e5f-6789-abcd-ef0123456789",
        generation=1,
        spec=spec(
            data={"prepare": {"sources": [source], "validationMaxRows": 9, "maxBadRows": 3}, "maxPromptLength": 77}
        ),
    )
    read = PrepareSettings.from_json(rendered(job))
    (found,) = read.sources
    assert (found.use, found.hub, found.split, found.ability, found.max_rows) == (
        Use.BOTH,
        Hub.MODEL_SCOPE,
        "test",
        "speech",
        7,
    )
    assert (found.configuration, found.revision) == ("main", "v2")
    assert found.function is not None
    assert (found.function.path.endswith("/mine.py"), found.function.name) == (True, "make")
    assert (read.validation_max_rows, read.max_bad_rows, read.max_prompt_length) == (9, 3, 77)
