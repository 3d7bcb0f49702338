"""What Prepare writes, counts and reports."""

import gzip
import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.kube import REPOSITORY
from tests.unit.trainer.preparing import fails, lines, numbered, prepare, settings, source

from ppojob_contract.durable import read_json
from ppojob_contract.outcomes import ExitClass
from ppojob_contract.preparation import Recipe, Use
from ppojob_contract.stages import MAX_FIGURES
from ppojob_trainer.stages.prepare import parquet
from ppojob_trainer.stages.prepare.recipes import GSM8K_INSTRUCTION
from ppojob_trainer.stages.prepare.rows import RowError
from ppojob_trainer.stages.prepare.settings import PrepareSettings
from ppojob_trainer.stages.prepare.tally import lengths_json

DATA = REPOSITORY.parent / "shared" / "data"
real = pytest.mark.skipif(not DATA.is_dir(), reason="the folder with real data sets is not there")

DIALOGUE = "\n\nHuman: How far is it?\n\nAssistant: Where to?\n\nHuman: Home.\n\nAssistant:"


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_bytes(lines(*rows))
    return path


def everything(tmp_path: Path, *rows: dict[str, Any], **changes: Any) -> Any:
    """Prepared with no validation: every row is in one file."""
    path = write(tmp_path / "rows.jsonl", *rows)
    return prepare(tmp_path, settings(source(path, **changes), validationFraction=0))


def messages(row: dict[str, Any]) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in row["prompt"]]


def test_a_prompt_in_verl_s_columns(tmp_path: Path) -> None:
    (row,) = everything(tmp_path, {"prompt": "Say it.", "answer": "it"}, name="mine", ability="speech").prompts()
    assert row == {
        "data_source": "mine",
        "prompt": [{"content": "Say it.", "role": "user"}],
        "ability": "speech",
        "reward_model": {"style": "rule", "ground_truth": "it"},
        "extra_info": {"index": 0, "split": "train", "source": str(tmp_path / "rows.jsonl"), "line": 1},
    }


def test_messages_and_answers_of_any_kind(tmp_path: Path) -> None:
    chat = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hi", "name": "x"}]
    rows = everything(
        tmp_path,
        {"q": chat, "a": 4.5},
        {"q": "none"},
        {"q": "null", "a": None},
        promptColumn="q",
        answerColumn="a",
    )
    found = rows.prompts()
    assert messages(found[0]) == [("system", "Be short."), ("user", "Hi")]
    assert [row["reward_model"]["ground_truth"] for row in found] == ["4.5", "", ""]
    assert rows.report["sources"]["rows"]["promptsWithoutAnswer"] == 2


def test_gsm8k(tmp_path: Path) -> None:
    row = {"question": "How much?", "answer": "It is 7*200=<<7*200=1400>>1400.\n#### 1,400"}
    (made,) = everything(tmp_path, row, recipe="GSM8K").prompts()
    assert messages(made) == [("user", f"How much? {GSM8K_INSTRUCTION}")]
    assert made["reward_model"] == {"style": "rule", "ground_truth": "1400"}
    assert "no result behind '####'" in fails(
        tmp_path, settings(source(write(tmp_path / "bad.jsonl", {**row, "answer": "1400"}), "GSM8K"))
    )


def test_hh_rlhf_gives_prompts_and_pairs(tmp_path: Path) -> None:
    made = everything(tmp_path, {"chosen": f"{DIALOGUE} A mile.", "rejected": f"{DIALOGUE} Go.\n"}, recipe="HHRLHF")
    (prompt,), (pair,) = made.prompts(), made.table("pairs-train.parquet")
    asked = [("user", "How far is it?"), ("assistant", "Where to?"), ("user", "Home.")]
    assert messages(prompt) == messages(pair) == asked
    assert (pair["chosen"], pair["rejected"]) == ("A mile.", "Go.")
    assert prompt["reward_model"] == {"style": "model", "ground_truth": ""}
    assert (made.report["trainRows"], made.report["pairsTrain"], made.report["rowsOut"]) == (1, 1, 1)


def test_turns_of_one_speaker_in_a_row_are_one(tmp_path: Path) -> None:
    """As in some rows of the real file, where one answer of two has such a break in it."""
    chosen, rejected = f"{DIALOGUE} A\n\nAssistant: mile.", f"{DIALOGUE} Go."
    made = everything(tmp_path, {"chosen": chosen, "rejected": rejected}, recipe="HHRLHF")
    (pair,) = made.table("pairs-train.parquet")
    assert (pair["chosen"], pair["rejected"]) == ("A\n\nmile.", "Go.")


@pytest.mark.parametrize(
    ("chosen", "rejected", "reason"),
    [
        (f"{DIALOGUE} Yes.", f"{DIALOGUE.replace('Home', 'Away')} No.", "answers to different dialogues"),
        (f"{DIALOGUE} Yes.", f"{DIALOGUE} Yes.", "the same: nothing is preferred"),
        (f"{DIALOGUE} ", f"{DIALOGUE} No.", "column 'chosen' has an empty turn of the assistant"),
        ("How far?", f"{DIALOGUE} No.", "column 'chosen' is no dialogue"),
        ("\n\nHuman: How far?", f"{DIALOGUE} No.", "column 'chosen' does not end with an answer of the assistant"),
    ],
)
def test_bad_dialogues(tmp_path: Path, chosen: str, rejected: str, reason: str) -> None:
    path = write(tmp_path / "rows.jsonl", {"chosen": chosen, "rejected": rejected})
    assert reason in fails(tmp_path, settings(source(path, "HHRLHF")))


USER, SAID, OTHER = (
    {"role": role, "content": text} for role, text in (("user", "q"), ("assistant", "a"), ("user", "x"))
)


@pytest.mark.parametrize("chosen", ["a", [SAID], [USER, SAID]])
def test_pairs(tmp_path: Path, chosen: Any) -> None:
    made = everything(tmp_path, {"prompt": "q", "chosen": chosen, "rejected": "b"}, recipe="Pairs")
    (pair,) = made.table("pairs-train.parquet")
    assert (messages(pair), pair["chosen"], pair["rejected"]) == ([("user", "q")], "a", "b")
    assert not made.there("train.parquet"), "nothing feeds it"
    assert (made.report["trainRows"], made.report["pairsTrain"]) == (0, 1)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"prompt": "q", "chosen": "a", "rejected": "a"}, "nothing is preferred"),
        ({"prompt": "q", "chosen": "a"}, "no column 'rejected'"),
        ({"prompt": "q", "chosen": "a", "rejected": [OTHER, SAID]}, "column 'rejected' begins with another prompt"),
        ({"prompt": "q", "chosen": "a", "rejected": [USER]}, "column 'rejected' ends with a message of the user"),
    ],
)
def test_bad_pairs(tmp_path: Path, row: dict[str, Any], reason: str) -> None:
    assert reason in fails(tmp_path, settings(source(write(tmp_path / "rows.jsonl", row), "Pairs")))


def test_use_decides_what_is_written(tmp_path: Path) -> None:
    row = {"chosen": f"{DIALOGUE} A mile.", "rejected": f"{DIALOGUE} Go."}
    for use, prompts, pairs in (("Prompts", True, False), ("Pairs", False, True), ("Both", True, True)):
        made = everything(tmp_path, row, recipe="HHRLHF", use=use)
        assert (made.there("train.parquet"), made.there("pairs-train.parquet")) == (prompts, pairs), use


FUNCTION = """
def convert(row):
    if row["n"] == 0:
        return None
    if row["n"] == 1:
        return {"prompt": "one", "answer": 1, "ability": "counting"}
    if row["n"] == 2:
        return [{"prompt": "two"}, {"prompt": [{"role": "user", "content": "zwei"}]}]
    if row["n"] == 3:
        return "three"
    return {"text": row["missing"]}

def pair(row):
    return {"prompt": "q", "chosen": "a", "rejected": "b"}

not_one = 3
"""


def by_function(tmp_path: Path, numbers: list[int], name: str = "convert", **changes: Any) -> dict[str, Any]:
    path = tmp_path / "functions.py"
    path.write_text(FUNCTION)
    rows = write(tmp_path / "rows.jsonl", *({"n": number} for number in numbers))
    return source(rows, "Function", function={"path": str(path), "name": name}, **changes)


def test_a_user_s_function(tmp_path: Path) -> None:
    made = prepare(tmp_path, settings(by_function(tmp_path, [0, 1, 2]), validationFraction=0))
    assert [row["prompt"][0]["content"] for row in made.prompts()] == ["one", "two", "zwei"]
    assert made.prompts()[0]["reward_model"]["ground_truth"] == "1"
    assert made.report["abilities"] == {"counting": 1, "rows": 2}
    counted = made.report["sources"]["rows"]
    assert (counted["rowsIn"], counted["rowsOut"], counted["rowsLeftOutByFunction"]) == (3, 2, 1)
    pairs = prepare(tmp_path, settings(by_function(tmp_path, [9], "pair", use="Pairs"), validationFraction=0))
    assert pairs.table("pairs-train.parquet")[0]["chosen"] == "a"


def test_what_a_user_s_function_does_wrong(tmp_path: Path) -> None:
    assert "the function gave a str, not a mapping" in fails(tmp_path, settings(by_function(tmp_path, [3])))
    assert "the function raised KeyError: 'missing'" in fails(tmp_path, settings(by_function(tmp_path, [4])))
    for name, message in (("nothing", "has no function 'nothing'"), ("not_one", "has no function 'not_one'")):
        assert message in fails(tmp_path, settings(by_function(tmp_path, [1], name)), ExitClass.CONFIG_ERROR)
    broken = by_function(tmp_path, [1])
    (tmp_path / "functions.py").write_text("import nowhere")
    message = fails(tmp_path, settings(broken, seed=7), ExitClass.CONFIG_ERROR)
    assert "functions.py cannot be imported: ModuleNotFoundError" in message
    gone = {**broken, "function": {"path": "/nowhere.py", "name": "convert"}}
    assert "/nowhere.py is not a Python file" in fails(tmp_path, settings(gone), ExitClass.CONFIG_ERROR)


def sides(tmp_path: Path, rows: list[dict[str, Any]], **changes: Any) -> tuple[list[str], list[str]]:
    """Prompts to train and to validate with."""
    folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    path = write(folder / "rows.jsonl", *rows)
    made = prepare(folder, settings(source(path), **changes))
    assert made.outcome.exit_class is ExitClass.SUCCEEDED, made.outcome
    train, validation = (made.table(name) for name in ("train.parquet", "validation.parquet"))
    assert {row["extra_info"]["split"] for row in train} == {"train"}
    assert {row["extra_info"]["split"] for row in validation} == {"validation"}
    first, second = ([row["prompt"][0]["content"] for row in side] for side in (train, validation))
    return first, second


def test_the_split_follows_fraction_and_seed(tmp_path: Path) -> None:
    rows = numbered(2000)
    train, validation = sides(tmp_path, rows)
    assert Counter([*train, *validation]) == Counter(row["prompt"] for row in rows)
    assert len(validation) == pytest.approx(500, abs=80)
    _, other = sides(tmp_path, rows, seed=43)
    assert len({*validation} & {*other}) == pytest.approx(125, abs=50)


def test_rows_that_are_added_move_none(tmp_path: Path) -> None:
    _, before = sides(tmp_path, numbered(1000))
    others = [{"prompt": f"new {number}"} for number in range(500)]
    train, after = sides(tmp_path, [*others, *reversed(numbered(1000))])
    assert {text for text in after if text.startswith("question")} == set(before)
    assert not {*train} & {*before}


def test_the_same_prompt_is_never_on_both_sides(tmp_path: Path) -> None:
    train, validation = sides(
        tmp_path, [*numbered(300), *numbered(300), *({"prompt": "question 7"} for _ in range(50))]
    )
    assert not {*train} & {*validation}


@pytest.mark.parametrize("most", [1, 30, 10_000])
def test_at_most_so_many_rows_to_validate_and_none_lost(tmp_path: Path, most: int) -> None:
    rows = numbered(1000)
    everything_, full = sides(tmp_path, rows)
    train, validation = sides(tmp_path, rows, validationMaxRows=most)
    assert len(validation) == min(most, len(full))
    assert set(validation) <= set(full)
    assert Counter([*train, *validation]) == Counter([*everything_, *full])


def test_prompts_and_pairs_are_split_alike(tmp_path: Path) -> None:
    rows = [{"prompt": f"question {number}", "chosen": "a", "rejected": "b"} for number in range(200)]
    path = write(tmp_path / "rows.jsonl", *rows)
    made = prepare(tmp_path, settings(source(path, "Pairs", use="Both")))
    for side in ("train", "validation"):
        pairs = [messages(row) for row in made.table(f"pairs-{side}.parquet")]
        assert pairs == [messages(row) for row in made.table(f"{side}.parquet")]


@pytest.mark.parametrize(
    ("count", "changes", "message"),
    [
        (3, {"validationFraction": 0.001}, "none of 3 prompts is for validation (validationFraction 0.001, by seed)"),
        (3, {"validationFraction": 0.999}, "none of 3 prompts is for training"),
        (30, {"maxPromptLength": 1}, "no prompts are left (rowsIn 30, rowsOut 0, rowsDropped 30, rowsTooLong 30"),
    ],
)
def test_nothing_to_train_on(tmp_path: Path, count: int, changes: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "rows.jsonl", *numbered(count))
    assert message in fails(tmp_path, settings(source(path), **changes))


def test_of_several_prompts_of_a_row_those_that_are_too_long_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "several.py"
    path.write_text("def convert(row):\n    return [{'prompt': 'word ' * length} for length in row['lengths']]\n")
    rows = write(tmp_path / "rows.jsonl", *({"lengths": lengths} for lengths in ([1, 9, 10], [2, 20], [30, 40])))
    told = source(rows, "Function", function={"path": str(path), "name": "convert"})
    made = prepare(tmp_path, settings(told, maxPromptLength=9, validationFraction=0))
    report = made.report
    assert (len(made.prompts()), report["rowsOut"], report["rowsTooLong"], report["promptsTooLong"]) == (3, 2, 1, 4)
    assert report["sources"]["rows"]["promptsTooLong"] == 4
    assert "too long: 4, bad: 0" in made.outcome.message


def test_prompts_that_are_too_long_go_and_are_counted(tmp_path: Path) -> None:
    rows = [{"prompt": "word " * length} for length in (1, 8, 9, 20, 40)]
    path = write(tmp_path / "rows.jsonl", *rows)
    made = prepare(tmp_path, settings(source(path), maxPromptLength=9, validationFraction=0))
    assert len(made.prompts()) == 3
    report = made.report
    assert (report["rowsIn"], report["rowsOut"], report["rowsTooLong"], report["rowsBad"]) == (5, 3, 2, 0)
    assert report["promptTokens"] == {
        "rows": 5,
        "min": 1,
        "mean": 15.6,
        "median": 9,
        "p95": 40,
        "max": 40,
        "histogram": [{"upTo": 16, "rows": 3}, {"upTo": 32, "rows": 1}, {"upTo": 64, "rows": 1}],
    }


def test_interval_bounds() -> None:
    found = lengths_json(Counter(dict.fromkeys((0, 1, 16, 17, 32, 33, 64), 1)))
    assert found is not None
    assert {item["upTo"]: item["rows"] for item in found["histogram"]} == {16: 3, 32: 2, 64: 2}
    assert lengths_json(Counter()) is None


def test_a_prompt_that_the_chat_template_refuses_is_a_bad_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(messages: Any) -> int:
        raise RowError("the model's chat template refuses it: no system message")

    monkeypatch.setattr("tests.unit.trainer.preparing.words", refuse)
    path = write(tmp_path / "rows.jsonl", {"prompt": "a"})
    assert "line 1: the model's chat template refuses it" in fails(tmp_path, settings(source(path)))


def test_several_sources_and_files(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a.jsonl", *numbered(50)), write(tmp_path / "b.jsonl", *numbered(50))
    pq.write_table(pa.Table.from_pylist(numbered(30)), tmp_path / "c.parquet")
    sources = (
        source("", name="text", files=[str(first), str(second)], maxRows=70),
        source(tmp_path / "c.parquet", name="table", ability="x"),
    )
    made = prepare(tmp_path, settings(*sources))
    assert Counter(row["data_source"] for row in made.prompts()) == {"text": 70, "table": 30}
    assert made.report["abilities"] == {"text": 70, "x": 30}
    assert [(item["source"], item["rows"]) for item in made.report["inputs"]] == [
        ("text", 50),
        ("text", 20),
        ("table", 30),
    ]


def test_the_report_tells_the_checksums(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", *numbered(100))
    made = prepare(tmp_path, settings(source(path)))
    (told,) = made.report["inputs"]
    assert (told["bytes"], told["sha256"]) == (path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())
    assert set(made.report["outputs"]) == {"train.parquet", "validation.parquet"}
    for name, facts in made.report["outputs"].items():
        content = (made.layout.output / name).read_bytes()
        assert facts == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def test_figures_and_message(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(lines(*numbered(100), {"prompt": "word " * 999}) + b"[]\n")
    made = prepare(tmp_path, settings(source(path), maxBadRows=1))
    train, validation = made.report["trainRows"], made.report["validationRows"]
    assert read_json(made.layout.result) == {
        "message": f"100 of 102 rows; {train} prompts to train, {validation} to validate; too long: 1, bad: 1",
        "figures": {
            "rowsIn": 102.0,
            "rowsOut": 100.0,
            "rowsDropped": 2.0,
            "rowsTooLong": 1.0,
            "promptsTooLong": 1.0,
            "rowsLeftOutByFunction": 0.0,
            "rowsBad": 1.0,
            "trainRows": float(train),
            "validationRows": float(validation),
            "pairsTrain": 0.0,
            "pairsValidation": 0.0,
            "rows/rows": 100.0,
            "prompts/rows": 100.0,
        },
    }


def test_rows_that_the_users_function_left_out_are_told(tmp_path: Path) -> None:
    path = tmp_path / "some.py"
    path.write_text("def convert(row):\n    return {'prompt': row['prompt']} if row['prompt'] != 'no' else None\n")
    rows = write(tmp_path / "rows.jsonl", *numbered(9), {"prompt": "no"}, {"prompt": "no"})
    told = source(rows, "Function", function={"path": str(path), "name": "convert"})
    made = prepare(tmp_path, settings(told, validationFraction=0))
    assert made.outcome.message.endswith("too long: 0, bad: 0; left out by the function: 2")
    assert read_json(made.layout.result)["figures"]["rowsLeftOutByFunction"] == 2.0


def test_each_source_and_ability_has_a_figure_and_they_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "by_row.py"
    path.write_text("def convert(row):\n    return {'prompt': row['prompt'], 'ability': row['ability']}\n")
    rows = [{"prompt": f"p{row}", "ability": f"a{row % 40}"} for row in range(100)]
    many = source(write(tmp_path / "many.jsonl", *rows), "Function", function={"path": str(path), "name": "convert"})
    few = source(write(tmp_path / "few.jsonl", *numbered(7)))
    made = prepare(tmp_path, settings(many | {"name": "many"}, few | {"name": "few"}, validationFraction=0))
    found = read_json(made.layout.result)["figures"]
    assert (found["rows/many"], found["rows/few"]) == (100.0, 7.0)
    assert (found["prompts/few"], found["prompts/a0"]) == (7.0, 3.0)
    assert len([name for name in found if name.startswith("prompts/")]) == 20
    assert len(made.report["abilities"]) == 41
    assert len([name for name in found if "/" not in name]) + 2 * 20 <= MAX_FIGURES


def test_the_same_settings_give_the_same_bytes(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", *numbered(500))
    outputs = [prepare(tmp_path / name, settings(source(path))).report["outputs"] for name in ("a", "b")]
    assert outputs[0] == outputs[1]


def test_settings_as_they_are_rendered() -> None:
    plain = PrepareSettings.from_json(
        settings(source("/a.jsonl", "HHRLHF"), {"name": "b", "recipe": "Pairs", "files": []})
    )
    assert [(found.recipe, found.use) for found in plain.sources] == [
        (Recipe.HHRLHF, Use.BOTH),
        (Recipe.PAIRS, Use.PAIRS),
    ]
    assert (plain.max_bad_rows, plain.validation_max_rows) == (0, None)


MEASURE = """
import resource, sys
from pathlib import Path
from tests.unit.trainer.preparing import prepare, settings, source

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = prepare(Path(sys.argv[1]), settings(source(sys.argv[2])))
print(found.outcome.message)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def growth(folder: Path, path: Path) -> int:
    """MiB that a process of its own needed at most, beyond its imports."""
    folder.mkdir()
    command = [sys.executable, "-c", MEASURE, str(folder), str(path)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(REPOSITORY / name) for name in ("", "operator", "trainer-image")),
    }
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    message, kib = done.stdout.splitlines()[-2:]
    assert "prompts to train" in message
    return int(kib) >> 10


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """Two row groups are held, and what Arrow makes of them: some 150 MB, for 60 MB as for 600."""
    path, text = tmp_path / "rows.jsonl", "x" * 100_000
    with path.open("w") as file:
        for number in range(3_000):
            file.write(json.dumps({"prompt": f"{number} {text}", "answer": "x"}) + "\n")
    assert path.stat().st_size > 300e6
    assert growth(tmp_path / "measured", path) < 200


def test_memory_does_not_grow_with_a_row_group(tmp_path: Path) -> None:
    """Other tools write a whole file as one."""
    path = tmp_path / "rows.parquet"
    table = pa.table({"prompt": [f"{number} {'x' * 100_000}" for number in range(100)], "answer": ["x"] * 100})
    pq.write_table(pa.concat_tables([table] * 30), path, row_group_size=3_000, compression="none", use_dictionary=False)
    assert pq.ParquetFile(path).num_row_groups == 1
    assert path.stat().st_size > 300e6
    assert growth(tmp_path / "measured", path) < 200


@real
@pytest.mark.parametrize(("name", "rows"), [("gsm8k-train.jsonl", 2000), ("gsm8k-test.jsonl", 300)])
def test_real_gsm8k(tmp_path: Path, name: str, rows: int) -> None:
    made = prepare(tmp_path, settings(source(DATA / name, "GSM8K"), validationFraction=0.1))
    assert made.outcome.exit_class is ExitClass.SUCCEEDED
    assert len(made.prompts()) == rows
    assert all(
        float(row["reward_model"]["ground_truth"]) == float(row["reward_model"]["ground_truth"])
        for row in made.prompts()
    )


@real
def test_real_hh_rlhf(tmp_path: Path) -> None:
    """Three of its rows have an empty answer."""
    path = DATA / "hh-rlhf-pairs.jsonl.gz"
    with gzip.open(path) as file:
        count = sum(1 for _ in file)
    values = settings(source(path, "HHRLHF"), validationFraction=0.1)
    assert "an empty turn of the assistant" in fails(tmp_path, values)
    made = prepare(tmp_path, {**values, "maxBadRows": 10})
    assert made.outcome.exit_class is ExitClass.SUCCEEDED
    report = made.report
    assert report["rowsIn"] == count
    assert report["rowsOut"] + report["rowsBad"] + report["rowsTooLong"] == count
    assert report["trainRows"] == report["pairsTrain"] > 1400


@real
def test_real_mt_bench(tmp_path: Path) -> None:
    """Its turns are a list of texts: no prompts as they are, which the message says."""
    path = DATA / "mt-bench-questions.jsonl"
    message = fails(tmp_path, settings(source(path, promptColumn="turns")))
    assert "column 'turns', message 1 has no role and content" in message


def test_row_groups_are_bounded(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", *numbered(parquet._GROUP_ROWS * 2 + 5))
    made = prepare(tmp_path, settings(source(path), validationFraction=0))
    assert pq.ParquetFile(made.layout.output / "train.parquet").num_row_groups == 3
