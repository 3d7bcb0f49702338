"""Checksums of the data that an attempt was given."""

from pathlib import Path

from ppojob_contract.layout import AttemptLayout, JobLayout
from ppojob_trainer import datasets


def attempt(root: Path, number: int = 1) -> AttemptLayout:
    return JobLayout(root / "job").attempt(number)


def digest(layout: AttemptLayout, train: list[Path], validation: list[Path]) -> str | None:
    overrides = {
        "data.train_files": [str(path) for path in train],
        "data.val_files": [str(path) for path in validation],
    }
    datasets.begin(layout, overrides).join()
    return datasets.digest_of(layout)


def test_the_content_counts_and_not_the_path(tmp_path: Path) -> None:
    a, b, copy = tmp_path / "a", tmp_path / "b", tmp_path / "copy"
    a.write_text("one")
    b.write_text("two")
    copy.write_text("one")
    found = digest(attempt(tmp_path), [a], [b])
    assert found is not None
    assert digest(attempt(tmp_path, 2), [copy], [b]) == found
    assert digest(attempt(tmp_path, 3), [b], [a]) != found, "which is for training matters"
    assert digest(attempt(tmp_path, 4), [a, b], []) != found
    a.write_text("one more")
    assert digest(attempt(tmp_path, 5), [a], [b]) != found


def test_a_file_that_is_not_there_is_others_to_tell(tmp_path: Path) -> None:
    layout = attempt(tmp_path)
    assert digest(layout, [tmp_path / "none"], []) is None
    datasets.carry_on(layout, attempt(tmp_path, 2))
    assert datasets.digest_of(attempt(tmp_path, 2)) is None


def test_an_attempt_in_the_same_process_has_the_same_data(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("one")
    found = digest(attempt(tmp_path), [file], [])
    file.write_text("two")
    datasets.carry_on(attempt(tmp_path), attempt(tmp_path, 2))
    assert datasets.digest_of(attempt(tmp_path, 2)) == found
