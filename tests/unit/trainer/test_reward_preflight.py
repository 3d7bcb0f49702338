"""Rows scored before training."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.trainer.builders import attempt_config, user_term

from ppojob_trainer.errors import ConfigError, DataError, Stopped
from ppojob_trainer.rewards import preflight
from ppojob_trainer.rewards.answers import Answer


def checked(folder: Path, *terms: dict[str, Any], rows: int = 40) -> list[str]:
    path = folder / "train.parquet"
    columns = [
        {
            "data_source": "sums",
            "prompt": [{"role": "user", "content": f"{row} + 0?"}],
            "reward_model": {"style": "rule", "ground_truth": str(row)},
            "extra_info": {"index": row},
        }
        for row in range(rows)
    ]
    pq.write_table(pa.Table.from_pylist(columns), path)
    attempt = attempt_config(folder, reward_terms=terms, overrides={"data.train_files": [str(path)]})
    return preflight.check(attempt, lambda: None)


def test_what_works_leaves_no_word(tmp_path: Path) -> None:
    assert (
        checked(tmp_path, user_term(tmp_path, "def compute(source, text, truth, extra):\n    return extra['index']\n"))
        == []
    )
    assert checked(tmp_path, {"name": "r", "rule": {"type": "GSM8K"}}) == []


def test_the_rows_are_the_first_ones_with_and_without_an_answer(tmp_path: Path) -> None:
    code = (
        "def compute(source, text, truth, extra):\n"
        f"    seen = open(r'{tmp_path}/seen', 'a')\n"
        "    return seen.write(f'{source}|{text}|{truth}|{extra[\"index\"]}\\n')\n"
    )
    checked(tmp_path, user_term(tmp_path, code))
    seen = sorted((tmp_path / "seen").read_text().splitlines(), key=lambda line: int(line.split("|")[2]))
    assert seen == [f"sums|{row if row % 2 == 0 else preflight.NO_ANSWER}|{row}|{row}" for row in range(preflight.ROWS)]


def test_some_failures_are_told(tmp_path: Path) -> None:
    code = "def compute(source, text, truth, extra):\n    return int(text)\n"
    (line,) = checked(tmp_path, user_term(tmp_path, code))
    assert line == (
        "own: ValueError: invalid literal for int() with base 10: 'I do not know.' (reward.py, line 2, in compute: "
        "return int(text)); "
        "on 8 of 16 rows, tried before training"
    )


@pytest.mark.parametrize("rows", [3, 40])
def test_a_term_that_fails_on_every_row_is_refused(tmp_path: Path, rows: int) -> None:
    good = {"name": "r", "rule": {"type": "GSM8K"}}
    with pytest.raises(ConfigError, match=rf"reward term own: ZeroDivisionError.*line 2.*each of {min(rows, 16)} rows"):
        checked(tmp_path, good, user_term(tmp_path, "def compute(*_):\n    return 1 / 0\n"), rows=rows)


@pytest.mark.parametrize(
    "term",
    [
        {"name": "bad", "rule": {"type": "Regex", "pattern": "("}},
        {"name": "bad", "function": {"path": "/nowhere/reward.py"}},
        {"name": "bad", "magic": {}},
    ],
)
def test_a_term_that_cannot_be_built_is_refused(tmp_path: Path, term: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="reward term bad: "):
        checked(tmp_path, term)


def test_data_that_cannot_be_read(tmp_path: Path) -> None:
    term = user_term(tmp_path, "def compute(*_):\n    return 1\n")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and no more")
    for name in ("cut.parquet", "none.parquet"):
        attempt = attempt_config(tmp_path, reward_terms=[term], overrides={"data.train_files": [str(tmp_path / name)]})
        with pytest.raises(DataError, match=name):
            preflight.check(attempt, lambda: None)


def test_rules_are_tried_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(answer: Answer) -> float:
        raise LookupError(answer.response)

    assert checked(tmp_path, {"name": "short", "rule": {"type": "Overlong", "maxTokens": 8, "bufferTokens": 4}}) == []
    monkeypatch.setattr("ppojob_trainer.rewards.terms.rule", lambda _spec: fails)
    with pytest.raises(ConfigError, match=r"reward term r: LookupError: .*; so on each of 16 rows"):
        checked(tmp_path, {"name": "r", "rule": {"type": "GSM8K"}})


def test_files_that_are_not_read_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = {"data.train_files": [str(tmp_path / "rows.jsonl")]}
    terms = [{"name": "r", "rule": {"type": "GSM8K"}}]
    assert preflight.check(attempt_config(tmp_path, reward_terms=terms, overrides=files), lambda: None) == []
    assert "rows.jsonl before training: only Parquet" in caplog.text


def test_a_stop_is_obeyed(tmp_path: Path) -> None:
    def stop() -> None:
        raise Stopped("now")

    term = user_term(tmp_path, "def compute(*_):\n    return 1\n")
    with pytest.raises(Stopped):
        preflight.check(attempt_config(tmp_path, reward_terms=[term]), stop)
