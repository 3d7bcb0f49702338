"""An evaluation without models: questions, what a kill leaves, verdicts and what follows from them, the report."""

import gzip
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppojob_trainer.errors import ConfigError, DataError
from ppojob_trainer.stages.conversations import ends
from ppojob_trainer.stages.evaluate import journal, judging, questions, replies, report
from ppojob_trainer.stages.evaluate.judging import Case, Verdicts
from ppojob_trainer.stages.evaluate.questions import Question
from ppojob_trainer.stages.evaluate.replies import Reply
from ppojob_trainer.stages.evaluate.settings import (
    Engine,
    EvaluateSettings,
    Format,
    PromptSource,
    RewardModelJudge,
    Side,
    TermsJudge,
)
from ppojob_trainer.stages.evaluate.verdicts import Outcome, Verdict, by_orders, by_scores, summary
from ppojob_trainer.stages.intervals import wilson

SETTINGS: dict[str, Any] = {
    "candidate": {"checkpoint": "/job/attempts/0001/checkpoints/global_step_20"},
    "baseline": {"model": "/models/base"},
    "model": "/models/base",
    "trustRemoteCode": False,
    "prompts": [{"files": ["/data/p.jsonl"], "format": "JSONL", "promptColumn": "prompt", "categoryColumn": None}],
    "maxPrompts": 200,
    "maxPromptLength": 512,
    "maxResponseLength": 256,
    "temperature": 0.0,
    "seed": 42,
    "engine": "Transformers",
    "tensorParallelSize": 1,
    "memoryFraction": 0.5,
    "judge": {"rewardModel": {"path": "/models/rm", "maxLength": 512}},
    "tieMargin": 0.0,
    "examples": 4,
}
JSONL = PromptSource(("p.jsonl",), Format.JSONL, "prompt", None)
MT_BENCH = PromptSource(("m.jsonl",), Format.MT_BENCH, "prompt", None)
PARQUET = PromptSource(("p.parquet",), Format.PARQUET, "prompt", None)


def question(number: int, category: str = "", follow_ups: tuple[str, ...] = ()) -> Question:
    opening = [{"role": "user", "content": f"question {number}"}]
    return Question(number=number, where=f"p line {number}", category=category, opening=opening, follow_ups=follow_ups)


def case(number: int, candidate: str, baseline: str, category: str = "") -> Case:
    one, other = (Reply(number, (text,), (len(text),)) for text in (candidate, baseline))
    return Case(question(number, category), one, other)


# ---- settings


def test_settings_are_read() -> None:
    found = EvaluateSettings.from_json(SETTINGS)
    assert found.candidate.is_checkpoint
    assert EvaluateSettings.from_json(SETTINGS | {"engine": "SGLang"}).engine is Engine.TRANSFORMERS
    assert found.baseline == Side("/models/base", is_checkpoint=False)
    assert found.judge == RewardModelJudge("/models/rm", 512)


def test_of_what_is_too_long_for_a_reward_model_it_reads_the_end() -> None:
    assert ends([[1, 2, 3], [4]], 2) == [[2, 3], [4]]
    assert ends([[1, 2, 3], [4]], None) == [[1, 2, 3], [4]]


@pytest.mark.parametrize("field", sorted(SETTINGS))
def test_every_setting_is_needed(field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        EvaluateSettings.from_json({name: value for name, value in SETTINGS.items() if name != field})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"engine": "Abacus"}, "Abacus"),
        ({"judge": {"coin": {}}}, "a judge is one of"),
        ({"judge": {"terms": []}}, "judge.terms is empty"),
        ({"candidate": {"job": "x"}}, "a checkpoint or a model"),
    ],
)
def test_wrong_settings_are_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        EvaluateSettings.from_json(SETTINGS | changes)


# ---- questions


def test_a_row_of_parquet_brings_what_a_rule_needs() -> None:
    row = {
        "prompt": [{"role": "user", "content": "1 + 1?"}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": "2"},
        "data_source": "sums",
        "extra_info": {"index": 7},
    }
    found = questions.parsed(3, ("p row 4", row), PARQUET)
    assert (found.category, found.ground_truth, found.data_source) == ("math", "2", "sums")
    assert Question.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_mt_bench_has_two_turns_and_its_categories() -> None:
    row = {"question_id": 81, "category": "writing", "turns": ["write", "shorter"]}
    found = questions.parsed(0, ("m line 1", row), MT_BENCH)
    assert (found.category, found.turns) == ("writing", 2)
    roles = [message["role"] for message in found.prompt(["text"])]
    assert roles == ["user", "assistant", "user"]
    assert found.prompt(["text"])[-1]["content"] == "shorter"
    assert [message["content"] for message in found.conversation(["a", "b"])] == ["write", "a", "shorter", "b"]


@pytest.mark.parametrize(
    ("row", "source", "words"),
    [
        ({"text": "a"}, JSONL, "p line 9: has no column 'prompt'"),
        ({"prompt": 5}, JSONL, "p line 9: a prompt is"),
        ({"prompt": []}, JSONL, "p line 9: the prompt is empty"),
        ({"turns": "a"}, MT_BENCH, "p line 9: column turns"),
        ({"turns": []}, MT_BENCH, "p line 9: column turns"),
    ],
)
def test_a_row_that_is_no_prompt_is_named(row: dict[str, Any], source: PromptSource, words: str) -> None:
    with pytest.raises(DataError, match=words):
        questions.parsed(0, ("p line 9", row), source)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"prompt": "a"}\n{"prompt": "b', "line 2: not JSON"),
        (b'{"prompt": "a"}\n\xff\xfe\n', "line 2: not UTF-8"),
        (b"[1]\n", "line 1: not an object"),
        (b"", "is empty"),
        (b'{"prompt": "' + b"x" * (1 << 20) + b'"}\n', "line 1: longer than"),
    ],
)
def test_a_malformed_file_is_named_by_line(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=words):
        list(questions.lines(str(path)))


def test_gzip_is_read_and_a_cut_one_named(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl.gz"
    lines = [json.dumps({"prompt": str(number * 0.123456789)}) + "\n" for number in range(500)]
    whole = gzip.compress("".join(lines).encode())
    path.write_bytes(whole)
    assert len(list(questions.lines(str(path)))) == 500
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="cannot be unpacked behind line"):
        list(questions.lines(str(path)))
    with pytest.raises(DataError, match="is not there"):
        list(questions.lines(str(tmp_path / "q.jsonl")))


def test_prompts_are_drawn_by_the_seed_and_long_ones_passed_over() -> None:
    rows = [((f"p line {place}", {"prompt": "x" * place}), JSONL) for place in range(1, 101)]

    def fits(opening: list[dict[str, str]]) -> bool:
        return len(opening[0]["content"]) <= 60

    found, too_long = questions.drawn(rows, 20, 42, fits)
    assert questions.drawn(rows, 20, 42, fits) == (found, too_long)
    assert questions.drawn(rows, 20, 43, fits)[0] != found
    numbers = [item.number for item in found]
    assert (len(numbers), numbers) == (20, sorted(set(numbers)))
    assert all(fits(item.opening) for item in found)
    everything, passed_over = questions.drawn(rows, 1000, 42, fits)
    assert (len(everything), passed_over) == (60, 40)


# ---- what a kill leaves


@given(st.lists(st.text(), min_size=1), st.integers(0, 10_000))
def test_a_line_that_was_cut_is_lost_alone(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], cut: int
) -> None:
    path = tmp_path_factory.mktemp("journal") / "lines.jsonl"
    journal.append(path, [{"text": text} for text in texts])
    content = path.read_bytes()
    path.write_bytes(content[: cut % len(content)])
    whole = [value["text"] for value in journal.read(path)]
    assert whole == texts[: len(whole)]
    journal.append(path, [{"text": "next"}])
    assert [value["text"] for value in journal.read(path)] == [*whole, "next"]


def test_answers_of_all_processes_are_found(tmp_path: Path) -> None:
    for rank in range(3):
        replies.keep(replies.file_of(tmp_path, "candidate", rank), [Reply(rank, (f"a{rank}",), (2,))])
    replies.keep(replies.file_of(tmp_path, "baseline", 0), [Reply(9, ("b",), (1,))])
    assert {number: reply.texts for number, reply in replies.kept(tmp_path, "candidate").items()} == {
        0: ("a0",),
        1: ("a1",),
        2: ("a2",),
    }


@given(st.integers(1, 50), st.integers(1, 8), st.integers(1, 5))
def test_processes_share_the_questions(count: int, size: int, ranks: int) -> None:
    """Each question once, and in the same batch however many share them."""
    asked = [question(number) for number in range(count)]
    shared = [batch for rank in range(ranks) for batch in replies.batches(asked, size, rank, ranks)]
    alone = replies.batches(asked, size, 0, 1)
    key: Callable[[list[Question]], int] = lambda batch: batch[0].number  # noqa: E731
    assert sorted(shared, key=key) == alone


# ---- verdicts


@pytest.mark.parametrize(
    ("candidate", "baseline", "margin", "expected"),
    [
        (2.0, 1.0, 0.0, Outcome.WIN),
        (1.0, 2.0, 0.0, Outcome.LOSS),
        (1.0, 1.0, 0.0, Outcome.TIE),
        (1.5, 1.0, 0.5, Outcome.TIE),
        (1.75, 1.0, 0.5, Outcome.WIN),
        (math.nan, 1.0, 0.0, None),
        (1.0, math.inf, 0.0, None),
    ],
)
def test_scores(candidate: float, baseline: float, margin: float, expected: Outcome | None) -> None:
    assert by_scores(1, candidate, baseline, margin).outcome is expected


@pytest.mark.parametrize(
    ("first", "second", "expected", "disagreed"),
    [
        (Outcome.WIN, Outcome.WIN, Outcome.WIN, False),
        (Outcome.LOSS, Outcome.LOSS, Outcome.LOSS, False),
        (Outcome.TIE, Outcome.TIE, Outcome.TIE, False),
        (Outcome.WIN, Outcome.LOSS, Outcome.TIE, True),
        (Outcome.WIN, Outcome.TIE, Outcome.TIE, True),
        (None, Outcome.WIN, None, False),
        (Outcome.WIN, None, None, False),
    ],
)
def test_orders(first: Outcome | None, second: Outcome | None, expected: Outcome | None, disagreed: bool) -> None:
    found = by_orders(1, first, second)
    assert (found.outcome, found.swap_disagreed) == (expected, disagreed)


SCORES = st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5), st.sampled_from(["", "math", "code"])), min_size=1)


@given(SCORES, st.integers(0, 3))
def test_swapping_the_models_mirrors_the_result(scores: list[tuple[int, int, str]], margin: int) -> None:
    categories = {number: name for number, (_, _, name) in enumerate(scores)}
    one = summary([by_scores(n, a, b, margin) for n, (a, b, _) in enumerate(scores)], categories)
    other = summary([by_scores(n, b, a, margin) for n, (a, b, _) in enumerate(scores)], categories)
    assert (one.all.wins, one.all.ties, one.all.losses) == (other.all.losses, other.all.ties, other.all.wins)
    assert one.all.win_rate == pytest.approx(1 - other.all.win_rate)
    low, high = other.all.interval
    assert one.all.interval == pytest.approx((1 - high, 1 - low))
    assert one.figures().keys() == other.figures().keys()
    for name, tally in one.categories.items():
        assert tally.win_rate == pytest.approx(1 - other.categories[name].win_rate)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1))
def test_identical_models_tie(scores: list[float]) -> None:
    found = summary([by_scores(n, score, score, 0.0) for n, score in enumerate(scores)], dict.fromkeys(range(999), ""))
    assert (found.all.ties, found.all.win_rate) == (len(scores), 0.5)
    low, high = found.all.interval
    assert low < 0.5 < high
    assert found.mean_scores is not None
    assert found.mean_scores[0] == found.mean_scores[1]


@given(SCORES)
def test_figures_add_up(scores: list[tuple[int, int, str]]) -> None:
    categories = {number: name for number, (_, _, name) in enumerate(scores)}
    figures = summary([by_scores(n, a, b, 0) for n, (a, b, _) in enumerate(scores)], categories).figures()
    assert figures["wins"] + figures["ties"] + figures["losses"] == figures["prompts"] == len(scores)
    assert 0 <= figures["winRateLow"] <= figures["winRate"] <= figures["winRateHigh"] <= 1
    assert {name for name in figures if "/" in name} == {f"winRate/{name}" for *_, name in scores if name}


def test_what_could_not_be_judged_is_in_no_rate() -> None:
    verdicts = [by_scores(0, 1, 0, 0), by_scores(1, math.nan, 0, 0), by_orders(2, Outcome.WIN, Outcome.LOSS)]
    figures = summary(verdicts, {0: "math", 1: "code", 2: "math"}).figures()
    assert (figures["prompts"], figures["unjudged"], figures["swapsDisagreed"]) == (2, 1, 1)
    assert (figures["winRate"], figures["winRate/math"]) == (0.75, 0.75)
    assert "winRate/code" not in figures


def test_verdicts_come_back_as_they_were() -> None:
    for verdict in (by_scores(1, 2.0, 1.0, 0.0), by_orders(2, Outcome.WIN, Outcome.TIE), by_orders(3, None, None)):
        assert Verdict.from_json(json.loads(json.dumps(verdict.to_json()))) == verdict


# ---- the interval


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718), (0, 0, 0, 1)],
)
def test_wilson(successes: float, trials: int, low: float, high: float) -> None:
    """The examples of Newcombe, Statistics in Medicine 17 (1998), table I, method 3."""
    assert wilson(successes, trials) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_wilson_covers_the_truth_nineteen_times_of_twenty(share: float) -> None:
    draw = random.Random(7)  # noqa: S311 - no secret
    trials, runs = 120, 4000
    covered = 0
    for _ in range(runs):
        low, high = wilson(sum(draw.random() < share for _ in range(trials)), trials)
        covered += low <= share <= high
    assert 0.93 < covered / runs < 0.97


# ---- rules as a judge


def test_rules_judge_and_a_killed_run_goes_on(tmp_path: Path) -> None:
    judge = TermsJudge(({"name": "short", "rule": {"type": "Regex", "pattern": "yes"}},))
    cases = [case(0, "yes", "no"), case(1, "no", "yes"), case(2, "no", "no"), case(3, "yes", "no")]
    path = tmp_path / "verdicts.jsonl"
    looks = iter(range(100))

    def killed() -> None:
        if next(looks) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judging.by_terms(judge, cases, 0.0, Verdicts(path), killed)
    again = Verdicts(path)
    assert [item.question.number for item in again.lacking(cases)] == [2, 3]
    judging.by_terms(judge, cases, 0.0, again, lambda: None)
    outcomes = [Verdicts(path).found[number].outcome for number in range(4)]
    assert outcomes == [Outcome.WIN, Outcome.LOSS, Outcome.TIE, Outcome.WIN]


def test_a_rule_that_does_not_exist_is_named(tmp_path: Path) -> None:
    judge = TermsJudge(({"name": "odd", "rule": {"type": "Astrology"}},))
    with pytest.raises(ConfigError, match="reward term odd cannot judge"):
        judging.by_terms(judge, [case(0, "a", "b")], 0.0, Verdicts(tmp_path / "v"), lambda: None)


# ---- the report


def told(cases: list[Case], verdicts: list[Verdict]) -> str:
    found = {verdict.number: verdict for verdict in verdicts}
    counted = summary(verdicts, {item.question.number: item.question.category for item in cases})
    settings = EvaluateSettings.from_json(SETTINGS)
    as_json = report.as_json(settings, cases, found, counted)
    assert json.loads(json.dumps(as_json))["questions"][0]["verdict"]["number"] == cases[0].question.number
    return report.as_markdown(settings, cases, found, counted)


def test_the_report_shows_the_clearest_both_ways() -> None:
    cases = [case(number, f"candidate {number}", f"baseline {number}", "math") for number in range(8)]
    margins = [0.1, 5.0, -3.0, 0.5, -0.2, -9.0, 0.0, 2.0]
    text = told(cases, [by_scores(number, margin, 0.0, 0.0) for number, margin in enumerate(margins)])
    assert text.index("candidate 1") < text.index("candidate 7") < text.index("candidate 5") < text.index("candidate 2")
    assert "candidate 0" not in text
    assert "candidate 6" not in text
    assert "| math | 8 | 4 | 1 | 3 | 56.2% |" in text


def test_text_of_models_cannot_break_out_of_the_report() -> None:
    nasty = "```\n# Heading\n````"
    text = told([case(0, nasty, "b", "a|b")], [by_scores(0, 1.0, 0.0, 0.0)])
    assert "`````text\nassistant: ```\n# Heading\n````\n`````" in text
    assert "| a\\|b |" in text
