"""Data sets by their names in a hub: what comes of each answer. The libraries themselves are in the images only; here
a small module stands in for them.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.unit.trainer.preparing import fails, numbered, prepare, settings, source

from ppojob_contract.outcomes import ExitClass


class DatasetNotFoundError(Exception):
    """As in `datasets.exceptions`."""


class Hub:
    """Stands in for `datasets.load_dataset`."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.rows: list[dict[str, Any]] = numbered(40)
        self.error: Exception | None = None
        self.breaks_after: int | None = None

    def load_dataset(
        self, path: str, *, name: str | None, split: str, revision: str | None, streaming: bool
    ) -> Iterator[dict[str, Any]]:
        self.asked.append((path, name, split, revision, streaming))
        if self.error is not None:
            raise self.error
        return self._read()

    def _read(self) -> Iterator[dict[str, Any]]:
        for number, row in enumerate(self.rows):
            if number == self.breaks_after:
                raise ConnectionError("Connection reset by peer")
            yield row


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    found = Hub()
    module, exceptions = ModuleType("datasets"), ModuleType("datasets.exceptions")
    module.load_dataset = found.load_dataset  # type: ignore[attr-defined]
    exceptions.DatasetNotFoundError = DatasetNotFoundError  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)
    monkeypatch.setitem(sys.modules, "datasets.exceptions", exceptions)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    return found


def test_rows_of_a_hub(tmp_path: Path, hub: Hub) -> None:
    wanted = source("org/questions", configuration="main", split="test", revision="v2")
    made = prepare(tmp_path, settings(wanted))
    assert len(made.prompts()) == 40
    assert hub.asked == [("org/questions", "main", "test", "v2", True)]
    assert {row["extra_info"]["source"] for row in made.prompts()} == {"org/questions"}
    (told,) = made.report["inputs"]
    assert told == {
        "source": "rows",
        "file": "org/questions",
        "rows": 40,
        "hub": "HuggingFace",
        "configuration": "main",
        "split": "test",
        "revision": "v2",
    }


def test_a_data_set_s_only_configuration_and_newest_state_by_default(tmp_path: Path, hub: Hub) -> None:
    prepare(tmp_path, settings(source("org/questions")))
    assert hub.asked == [("org/questions", None, "train", None, True)]


def test_bad_rows_of_a_hub(tmp_path: Path, hub: Hub) -> None:
    hub.rows[4] = {"text": "x"}
    assert "org/questions line 5: no column 'prompt'" in fails(tmp_path, settings(source("org/questions")))


def test_more_rows_than_wanted_are_not_asked_for(tmp_path: Path, hub: Hub) -> None:
    hub.breaks_after = 20
    made = prepare(tmp_path, settings(source("org/questions", maxRows=20)))
    assert len(made.prompts()) == 20


@pytest.mark.parametrize(
    ("error", "exit_class", "message"),
    [
        (
            DatasetNotFoundError("no such"),
            ExitClass.DATA_ERROR,
            "is not in the hub, or may not be read without HF_TOKEN",
        ),
        (
            ValueError('Unknown split "x". Should be one of [train].'),
            ExitClass.DATA_ERROR,
            "split train: Unknown split",
        ),
        (
            ValueError("Config name is missing. Please pick one among the available configs: ['main', 'socratic']"),
            ExitClass.DATA_ERROR,
            "org/questions, configuration not given, split train: Config name is missing. Please pick one",
        ),
        (ConnectionError("unreachable"), ExitClass.COMMUNICATION, "org/questions could not be read: ConnectionError"),
        (RuntimeError("odd"), ExitClass.COMMUNICATION, "RuntimeError: odd"),
    ],
)
def test_what_a_hub_answers(tmp_path: Path, hub: Hub, error: Exception, exit_class: ExitClass, message: str) -> None:
    hub.error = error
    assert message in fails(tmp_path, settings(source("org/questions")), exit_class)


def test_a_hub_that_breaks_off(tmp_path: Path, hub: Hub) -> None:
    hub.breaks_after = 20
    assert "Connection reset" in fails(tmp_path, settings(source("org/questions")), ExitClass.COMMUNICATION)


def test_pods_that_are_offline(tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    message = fails(tmp_path, settings(source("org/questions")), ExitClass.CONFIG_ERROR)
    assert "the trainer's pods are offline (HF_HUB_OFFLINE=1): set that variable to 0" in message
    assert hub.asked == []


def test_an_empty_data_set(tmp_path: Path, hub: Hub) -> None:
    hub.rows = []
    assert "org/questions has no rows" in fails(tmp_path, settings(source("org/questions")))


def test_model_scope_s_files_are_read_from_where_it_put_them(
    tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def dataset_snapshot_download(name: str, *, revision: str) -> str:
        asked.append((name, revision))
        return str(tmp_path)

    for name in ("modelscope", "modelscope.hub", "modelscope.hub.snapshot_download"):
        module = ModuleType(name)
        module.dataset_snapshot_download = dataset_snapshot_download  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, module)
    for wanted in ({}, {"revision": "v2", "configuration": "main"}):
        made = prepare(tmp_path, settings(source("org/questions", hub="ModelScope", **wanted)))
        assert made.outcome.exit_class is ExitClass.SUCCEEDED
    assert asked == [("org/questions", "master"), ("org/questions", "v2")]
    assert hub.asked == [(str(tmp_path), None, "train", None, True), (str(tmp_path), "main", "train", None, True)]


@pytest.mark.parametrize(("hub_name", "package"), [("HuggingFace", "datasets"), ("ModelScope", "modelscope")])
def test_a_package_that_the_image_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hub_name: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    message = fails(tmp_path, settings(source("org/questions", hub=hub_name)), ExitClass.CONFIG_ERROR)
    assert f"the package {package} is missing in the trainer's image" in message
    assert "put the files on the claim" in message
