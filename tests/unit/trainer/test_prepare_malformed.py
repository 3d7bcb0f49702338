"""What is wrong with files and rows, told so that a data engineer can act on it."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.trainer.preparing import fails, lines, numbered, prepare, settings, source

from ppojob_contract.outcomes import ExitClass
from ppojob_trainer.stages.prepare import json_rows

GOOD = lines(*numbered(40))
TEN_MB = b'{"prompt": "' + b"x" * 10_000_000 + b'"}\n'


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"prompt": "cut o\n', "not JSON at column 12: Unterminated string"),
        (b"prompt,answer\n", "not JSON at column 1: Expecting value"),
        ('{"prompt": "caf\u00e9"}\n'.encode("latin-1"), "not UTF-8: byte 0xe9 at column 16; convert the file"),
        (b'{"prompt": "a\0b"}\n', "has NUL bytes: UTF-16 without a byte order mark?"),
        (b'{"question": "a", "x": 1}\n', "no column 'prompt'; the row has 'question', 'x'"),
        (b"{}\n", "no column 'prompt'; the row has none"),
        (b'["a"]\n', "a list, not an object with columns"),
        (b'"a"\n', "a text, not an object"),
        (b"3\n", "a number, not an object"),
        (b"null\n", "null, not an object"),
        (b'{"prompt": "a", "prompt": "b"}\n', "column 'prompt' is there twice"),
        (b'{"prompt": 3}\n', "column 'prompt' is a number, not a text or a list of messages"),
        (b'{"prompt": null}\n', "column 'prompt' is null"),
        (b'{"prompt": "  "}\n', "column 'prompt' is empty"),
        (b'{"prompt": []}\n', "column 'prompt' is an empty list"),
        (b'{"prompt": ["a"]}\n', "column 'prompt', message 1 has no role and content"),
        (b'{"prompt": [{"role": "boss", "content": "a"}]}\n', "the role is 'boss', not system, user or assistant"),
        (b'{"prompt": [{"role": "assistant", "content": "a"}]}\n', "ends with a message of the assistant"),
        (b'{"prompt": [{"role": "user", "content": 1}]}\n', "column 'prompt', message 1 is a number, not a text"),
        (b'{"prompt": "\\ud800"}\n', "half of a surrogate pair"),
        (b'{"prompt": "a", "answer": NaN}\n', "NaN is no JSON value"),
        (b'{"prompt": "a", "answer": [1]}\n', "column 'answer' is a list, not a text"),
        (b"[" * 100_000 + b"\n", "nested too deeply"),
        (TEN_MB, "longer than 4 MiB: are line breaks missing?"),
    ],
)
def test_a_bad_row(tmp_path: Path, content: bytes, reason: str) -> None:
    """Behind good rows and before others: its own line is named, and the others are read."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(GOOD + content + GOOD)
    message = fails(tmp_path, settings(source(path)))
    assert message.startswith("1 bad row, maxBadRows is 0: mend the file, or raise maxBadRows to leave them out.")
    assert f"{path} line 41: " in message
    assert reason in message

    tolerant = prepare(tmp_path, settings(source(path), maxBadRows=1))
    assert tolerant.outcome.exit_class is ExitClass.SUCCEEDED
    assert len(tolerant.prompts()) == 80
    (listed,) = tolerant.report["badRows"]
    assert (listed["file"], listed["line"]) == (str(path), 41)
    assert reason in listed["reason"]
    assert (tolerant.report["rowsIn"], tolerant.report["rowsDropped"], tolerant.report["rowsBad"]) == (81, 1, 1)


def test_a_file_that_ends_in_the_middle_of_a_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(GOOD[:-12])
    message = fails(tmp_path, settings(source(path)))
    assert "line 40: cut off in the middle of the row (the file ends here): copy it again" in message


def test_a_ten_megabyte_line_without_an_end_is_not_held(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(GOOD + TEN_MB.rstrip(b"\n"))
    assert "line 41: longer than 4 MiB" in fails(tmp_path, settings(source(path)))


def test_rows_up_to_the_limit_are_rows(tmp_path: Path) -> None:
    frame = len(lines({"prompt": ""}))
    path = tmp_path / "rows.jsonl"
    path.write_bytes(GOOD + lines({"prompt": "x" * (json_rows.LONGEST_BYTES - frame)}))
    assert len(prepare(tmp_path, settings(source(path))).prompts()) == 41


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.jsonl", b"", "is empty: was it written completely?"),
        ("rows.jsonl.gz", b"", "is empty: was it written completely?"),
        ("rows.jsonl", b"\n \r\n\n", "has no rows"),
        ("rows.json", b"[]", "has no rows"),
        ("rows.jsonl", GOOD.decode().encode("utf-16"), "is UTF-16 text: convert it with iconv -f UTF-16 -t UTF-8"),
        ("rows.jsonl", b"\xfe\xff" + GOOD.decode().encode("utf-16-be"), "is UTF-16 text"),
        ("rows.jsonl.gz", gzip.compress(GOOD)[:-20], "not a whole gzip file"),
        ("rows.jsonl.gz", gzip.compress(GOOD * 100)[:600], "not a whole gzip file"),
        ("rows.jsonl.gz", GOOD, "not a whole gzip file"),
        ("rows.jsonl.gz", gzip.compress(GOOD)[:40] + b"damage" + gzip.compress(GOOD)[46:], "not a whole gzip file"),
        ("rows.parquet", GOOD, "cannot be read as Parquet"),
        ("rows.parquet", b"", "cannot be read as Parquet"),
        ("rows.csv", GOOD, "cannot be read by its name; known are .jsonl, .json, .jsonl.gz, .json.gz, .parquet"),
        ("rows.json", b'[{"prompt": "a"}, {"prompt": ', "element 2: the file ends in the middle of the array"),
        (
            "rows.json",
            b'[{"prompt": "a"}, {"prompt": "a", "prompt": "b"}]',
            "element 2: column 'prompt' is there twice",
        ),
        ("rows.json", '[{"prompt": "caf\u00e9"}]'.encode("latin-1"), "is not UTF-8"),
        ("rows.json", b'[{"prompt": "' + b"x" * 10_000_000 + b'"}]', "element 1: longer than 4 MiB"),
    ],
)
def test_a_bad_file(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    """Never tolerated: how much of it is missing cannot be known."""
    path = tmp_path / name
    path.write_bytes(content)
    found = fails(tmp_path, settings(source(path), maxBadRows=1000))
    assert str(path) in found
    assert message in found


def test_a_damaged_parquet(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pylist(numbered(5000)), path, row_group_size=1000, compression="zstd")
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 200] = bytes(200)
    path.write_bytes(content)
    assert f"{path} cannot be read as Parquet" in fails(tmp_path, settings(source(path)))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/nowhere/rows.jsonl", "/nowhere/rows.jsonl is not there: the path is one inside the pods"),
        ("raw/rows.jsonl", "paths are absolute, such as /ppojob/storage/raw/rows.jsonl"),
        ("./rows", "paths are absolute"),
    ],
)
def test_a_path_that_leads_nowhere(tmp_path: Path, name: str, message: str) -> None:
    assert message in fails(tmp_path, settings(source(name)))


def test_a_folder(tmp_path: Path) -> None:
    assert "is a folder: name the files in it" in fails(tmp_path, settings(source(tmp_path)))


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + GOOD,
        GOOD.replace(b"\n", b"\r\n"),
        GOOD.replace(b"\n", b"\n\n  \n"),
        GOOD.rstrip(b"\n"),
        GOOD.replace(b'"answer"', b'"other": {"deep": [1, null]}, "answer"'),
        GOOD.replace(b"question", b"Fr\\u00e4ge \xf0\x9f\x98\x80"),
    ],
    ids=["byte order mark", "CRLF", "blank lines", "no last line break", "more columns", "not ASCII"],
)
def test_what_is_no_fault(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    prepared = prepare(tmp_path, settings(source(path)))
    assert prepared.outcome.exit_class is ExitClass.SUCCEEDED
    assert (len(prepared.prompts()), prepared.report["rowsIn"], prepared.report["rowsBad"]) == (40, 40, 0)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.json", json.dumps(numbered(40)).encode()),
        ("rows.json", json.dumps(numbered(40), indent=2).encode()),
        ("rows.json", b"\xef\xbb\xbf" + json.dumps(numbered(40)).encode()),
        ("rows.json", GOOD),
        ("rows.json.gz", gzip.compress(json.dumps(numbered(40)).encode())),
        ("rows.jsonl.gz", gzip.compress(GOOD)),
        ("rows.jsonl.gz", gzip.compress(GOOD[:900]) + gzip.compress(GOOD[900:])),
    ],
)
def test_ways_to_write_the_same(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    prompts = prepare(tmp_path, settings(source(path))).prompts()
    assert {row["prompt"][0]["content"] for row in prompts} == {row["prompt"] for row in numbered(40)}
    assert sorted(row["extra_info"]["line"] for row in prompts) == list(range(1, 41))


def test_an_array_larger_than_a_piece(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{"prompt": f"{number} " + "é" * 999} for number in range(500)], ensure_ascii=False))
    assert len(prepare(tmp_path, settings(source(path))).prompts()) == 500


def test_bad_elements_of_an_array(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([*numbered(40), 3]))
    assert "line 41: a number, not an object" in fails(tmp_path, settings(source(path)))


def test_many_bad_rows_are_listed_to_a_limit_and_the_rest_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(lines(*({"text": "x"} for _ in range(1000))))
    prepared = prepare(tmp_path, settings(source(path)))
    message = prepared.outcome.message
    assert message.startswith("at least 20 bad rows, maxBadRows is 0")
    assert f"{path} line 1: no column 'prompt'; the row has 'text'; line 2: " in message
    assert message.endswith("and 17 more, see bad-rows.json of this run")
    assert len(message) <= 500
    assert prepared.bad_rows["count"] == 20
    assert [row["line"] for row in prepared.bad_rows["rows"]] == list(range(1, 21))


def test_all_bad_rows_of_a_tolerant_run_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(GOOD + lines(*({"text": "x"} for _ in range(30))))
    prepared = prepare(tmp_path, settings(source(path), maxBadRows=30))
    assert (prepared.report["rowsBad"], len(prepared.report["badRows"])) == (30, 20)
    message = fails(tmp_path, settings(source(path), maxBadRows=29))
    assert message.startswith("at least 30 bad rows, maxBadRows is 29")


def test_bad_rows_of_several_files_name_each(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_bytes(b"[]\n" + GOOD)
    files = [str(tmp_path / name) for name in ("a.jsonl", "b.jsonl")]
    message = fails(tmp_path, settings(source("", files=files)))
    assert f"{files[0]} line 1: a list" in message
    assert f"{files[1]} line 1: a list" in message


def test_the_end_of_a_long_message_is_not_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 100 + ".jsonl")
    row = {f"{'long column name ' * 10}{number}": 1 for number in range(20)}
    path.write_bytes(lines(row, row, row))
    message = fails(tmp_path, settings(source(path)))
    assert len(message) <= 500
    assert "mend the file, or raise maxBadRows" in message
    assert "line 1: no column 'prompt'" in message
