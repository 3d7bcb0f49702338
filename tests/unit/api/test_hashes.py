"""What needs a new attempt, what a new cluster, and what nothing."""

from typing import Any

import pytest
from tests.support.builders import raw_guardrail, raw_spec, spec
from tests.support.schema import SPEC_SCHEMA, filled

from ppojob_operator.domain.hashes import cluster_hash, spec_hash, training_hash

BASE = spec()


def changed(**blocks: Any) -> set[str]:
    """Hashes that differ from the base's."""
    other = spec(**blocks)
    hashes = {"training": training_hash, "cluster": cluster_hash, "spec": spec_hash}
    return {name for name, function in hashes.items() if function(other) != function(BASE)}


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ({"guardrails": [raw_guardrail()]}, set()),
        ({"suspend": True}, set()),
        ({"checkpoints": raw_spec()["checkpoints"] | {"confirmSteps": 9}}, set()),
        ({"checkpoints": raw_spec()["checkpoints"] | {"everySteps": 9}}, {"training"}),
        ({"training": raw_spec()["training"] | {"learningRate": 1.0e-5}}, {"training"}),
        ({"model": {"actor": {"path": "/models/tiny", "lora": {}}}}, {"training"}),
        ({"trainer": {"overrides": [{"key": "a", "value": 1}]}}, {"training"}),
        ({"trainer": {"env": [{"name": "A"}]}}, {"training", "cluster"}),
        ({"cluster": {"device": "CPU", "nodes": 2}}, {"cluster"}),
        ({"storage": {"claimName": "other"}}, {"cluster"}),
        ({"reward": {"terms": [{"name": "f", "function": {"configMap": "c"}}]}}, {"training", "cluster"}),
    ],
)
def test_what_changes(blocks: dict[str, Any], expected: set[str]) -> None:
    assert changed(**blocks) - {"spec"} == expected
    assert "spec" in changed(**blocks)


def test_defaults_written_out_change_nothing() -> None:
    assert changed(**filled(raw_spec(), SPEC_SCHEMA)) == set()


def test_values_are_told_apart_by_type() -> None:
    def of(value: Any) -> str:
        return training_hash(spec(trainer={"overrides": [{"key": "a", "value": value}]}))

    assert len({of(1), of("1"), of(True), of(None), of(1.5)}) == 5


def test_hashes_stay_what_they_are() -> None:
    """They are stored in running jobs: another value would restart every one of them at an operator's upgrade."""
    assert (training_hash(BASE), cluster_hash(BASE)) == ("bc5d6e4e88c6e1ac", "e2edf3ce8b41cd76")
