import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.trainer.builders import user_term

from ppojob_trainer.rewards.answers import Answer
from ppojob_trainer.rewards.rules import exact_match, gsm8k, overlong, regex, rule
from ppojob_trainer.rewards.terms import ERROR_KEY, FAILED_KEY, build, decode, encode, total


@pytest.mark.parametrize(
    ("response", "truth", "flexible", "strict"),
    [
        ("so 6 * 7 = 42\n#### 42", "42", 1.0, 1.0),
        ("#### 41 then #### 42", "#### 42", 1.0, 1.0),
        ("#### 42, not 41", "42", 1.0, 1.0),
        ("#### $-3", "-3", 1.0, 1.0),
        ("it is 1,234.50", "1234.5", 1.0, 0.0),
        ("the answer is 42", "42", 1.0, 0.0),
        ("the answer is 41", "42", 0.0, 0.0),
        ("no idea", "42", 0.0, 0.0),
        ("", "", 0.0, 0.0),
    ],
)
def test_gsm8k(response: str, truth: str, flexible: float, strict: float) -> None:
    assert gsm8k("Flexible")(response, truth) == flexible
    assert gsm8k("Strict")(response, truth) == strict


def test_gsm8k_is_flexible_where_nothing_is_said() -> None:
    assert rule({"type": "GSM8K"})(Answer(response="it is 42", ground_truth="42")) == 1.0
    assert rule({"type": "GSM8K", "format": "Strict"})(Answer(response="it is 42", ground_truth="42")) == 0.0


def test_exact_match() -> None:
    assert exact_match("  yes\n", "yes") == 1.0
    assert exact_match("yes.", "yes") == 0.0


def test_regex_modes() -> None:
    assert regex("[0-9]", "Share")("a1b22", "") == pytest.approx(3 / 5)
    assert regex("[0-9]", "Share")("", "") == 0.0
    assert regex("b+", "Match")("abba", "") == 1.0
    assert regex("c", "Match")("abba", "") == 0.0


@given(st.text(max_size=40))
def test_a_share_is_between_0_and_1(response: str) -> None:
    assert 0.0 <= regex(r"\w+", "Share")(response, "") <= 1.0


@pytest.mark.parametrize(
    "spec",
    [
        {"type": "Magic"},
        {"type": "Regex", "pattern": "("},
        {"type": "Regex", "pattern": "a", "mode": "Half"},
        {"type": "GSM8K", "format": "Loose"},
        {"type": "Overlong", "maxTokens": 10, "bufferTokens": 11},
    ],
)
def test_impossible_rules(spec: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"unknown|pattern|bufferTokens"):
        rule(spec)


@pytest.mark.parametrize(("tokens", "score"), [(0, 0.0), (80, 0.0), (85, -0.25), (90, -0.5), (100, -1.0), (120, -1.0)])
def test_overlong_falls_in_a_straight_line(tokens: int, score: float) -> None:
    assert overlong(100, 20)(Answer(response="x", tokens=tokens)) == pytest.approx(score)


def test_overlong_needs_the_length() -> None:
    result = total([build(OVERLONG)], Answer(response="x"))
    assert result[FAILED_KEY] == 1.0
    assert "not known" in str(result[ERROR_KEY])


@given(st.integers(1, 500), st.integers(1, 500), st.integers(0, 600), st.integers(0, 600))
def test_a_longer_answer_is_never_better(limit: int, buffer: int, one: int, other: int) -> None:
    score = overlong(max(limit, buffer), buffer)
    shorter, longer = (score(Answer(response="", tokens=tokens)) for tokens in sorted((one, other)))
    assert -1.0 <= longer <= shorter <= 0.0


OVERLONG = {"name": "short", "weight": 0.5, "rule": {"type": "Overlong", "maxTokens": 10, "bufferTokens": 10}}


def test_weighted_sum_and_parts() -> None:
    terms = [
        {"name": "digits", "weight": 0.5, "rule": {"type": "Regex", "pattern": "[0-9]", "mode": "Share"}},
        {"name": "right", "weight": 2.0, "rule": {"type": "GSM8K"}},
        OVERLONG,
    ]
    result = total(decode(encode(terms)), Answer(response="42", ground_truth="42", data_source="x", tokens=4))
    assert result == {
        "score": 2.3,
        FAILED_KEY: 0.0,
        ERROR_KEY: "",
        "term_digits": 1.0,
        "term_right": 1.0,
        "term_short": -0.4,
    }


def test_encoded_terms_hold_no_interpolation() -> None:
    terms = [{"name": "r", "rule": {"type": "Regex", "pattern": "^a${2}$"}}]
    assert "$" not in encode(terms)
    assert json.loads(encode(terms)) == terms


def scored(spec: dict[str, Any], answer: Answer) -> dict[str, float | str]:
    term = build(spec)
    try:
        return total([term], answer)
    finally:
        term.close()


@pytest.mark.parametrize(
    "code",
    [
        "def compute(source, text, truth, extra):\n    return {'score': len(text) + extra['index']}\n",
        "async def compute(source, text, truth, extra):\n    return len(text) + extra['index']\n",
        "def compute(source, text, truth, extra):\n    print('words')\n    return len(text) + extra['index']\n",
    ],
    ids=["map", "coroutine", "prints"],
)
def test_a_users_function(tmp_path: Path, code: str) -> None:
    assert scored(user_term(tmp_path, code), Answer(response="abc", extra_info={"index": 4}))["score"] == 7.0


def test_a_function_that_raises_counts_as_failed_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    term = build(user_term(tmp_path, "def compute(*_):\n    raise KeyError('nope')\n"))
    good = build({"name": "good", "weight": 3.0, "rule": {"type": "ExactMatch"}})
    with caplog.at_level(logging.ERROR):
        results = [total([term, good], Answer(response="x", ground_truth="x")) for _ in range(3)]
    term.close()
    assert all(result["score"] == 3.0 and result[FAILED_KEY] == 1.0 for result in results)
    said = "own: KeyError: 'nope' (reward.py, line 2, in compute: raise KeyError('nope'))"
    assert {result[ERROR_KEY] for result in results} == {said}
    assert len(caplog.records) == 1
    assert "Traceback" in caplog.text


def test_an_error_comes_with_the_end_of_the_traceback_in_the_users_file(tmp_path: Path) -> None:
    code = (
        "import json\n"
        "def parse(text):\n    return json.loads(text)\n"
        "def compute(source, text, *_):\n    return parse(text)\n"
    )
    said = str(scored(user_term(tmp_path, code), Answer(response="x"))[ERROR_KEY])
    places = "line 3, in parse: return json.loads(text); called from line 5, in compute: return parse(text)"
    assert said == f"own: JSONDecodeError: Expecting value: line 1 column 1 (char 0) (reward.py, {places})"


def test_what_is_told_of_an_error_is_bounded_and_has_no_secret_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place is told however long the error's text is, and a cut never leaves half a secret."""
    secret = "squeamish" * 60
    monkeypatch.setenv("MY_API_KEY", secret)
    code = (
        f"def deep(n):\n    return deep(n - 1) if n else 1 / 0  # {secret}\n"
        "def compute(*_):\n    try:\n        return deep(50)\n"
        f"    except ZeroDivisionError as error:\n        raise ValueError('{'x' * 300}{secret}') from error\n"
    )
    said = str(scored(user_term(tmp_path, code), Answer(response=""))[ERROR_KEY])
    assert "squeam" not in said
    assert "(reward.py, line 7, in compute: raise ValueError(" in said
    assert len(said) <= 2 * 400
    (tmp_path / "reward.py").write_text(code.replace("compute(*_)", "other(*_)") + "def compute(*_):\n    deep(50)\n")
    deep = str(scored(user_term(tmp_path, (tmp_path / "reward.py").read_text()), Answer(response=""))[ERROR_KEY])
    assert deep.count("in deep") == 4
    assert "squeam" not in deep


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import time\ndef compute(*_):\n    time.sleep(60)\n", "no answer within 0.3 s"),
        ("import os\ndef compute(*_):\n    os._exit(7)\n", "ended with code 7"),
        (
            "import sys\ndef compute(*_):\n    sys.exit(2)\n",
            "SystemExit: 2 (reward.py, line 3, in compute: sys.exit(2)",
        ),
        ("def compute(*_):\n    return None\n", "TypeError"),
        ("def compute(*_):\n    return 'many'\n", "ValueError: could not convert string to float"),
        ("def compute(*_):\n    return {}\n", "KeyError: 'score'"),
    ],
    ids=["hangs", "dies", "exits", "nothing", "no number", "no score"],
)
def test_a_function_that_gives_no_number_fails_that_sample_alone(tmp_path: Path, code: str, said: str) -> None:
    """The next call goes to a process that can answer it."""
    ways = f"{code}\nbad = compute\ndef compute(source, text, *_):\n    return bad() if text == 'bad' else 1.0\n"
    term = build(user_term(tmp_path, ways, timeoutSeconds=0.3))
    results = [total([term], Answer(response=text)) for text in ("good", "bad", "good")]
    term.close()
    assert [result["score"] for result in results] == [1.0, 0.0, 1.0]
    assert [result[FAILED_KEY] for result in results] == [0.0, 1.0, 0.0]
    assert said in str(results[1][ERROR_KEY])


def test_a_function_gets_no_part_in_the_trainers_own_process(tmp_path: Path) -> None:
    code = "import os, sys\ndef compute(*_):\n    sys.path.insert(0, '/nowhere')\n    return os.getpid()\n"
    assert scored(user_term(tmp_path, code), Answer(response=""))["score"] != os.getpid()
    assert "/nowhere" not in sys.path


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("compute = 1\n", "reward.py has no function 'compute'"),
        (
            "import nowhere_to_be_found\n",
            "ModuleNotFoundError: No module named 'nowhere_to_be_found' (reward.py, line 1",
        ),
        ("def compute(:\n", "SyntaxError: invalid syntax (reward.py, line 1)"),
    ],
)
def test_files_that_cannot_be_loaded(tmp_path: Path, code: str, said: str) -> None:
    term = build(user_term(tmp_path, code))
    with pytest.raises(Exception, match="Error") as error:
        term.load()
    assert said in str(error.value)


def test_files_and_kinds_that_are_not_there(tmp_path: Path) -> None:
    term = build({"name": "own", "function": {"path": str(tmp_path / "none.py"), "name": "compute"}})
    with pytest.raises(Exception, match="not a Python file"):
        term.load()
    with pytest.raises(ValueError, match="kind"):
        build({"name": "m", "magic": {"path": "x"}})
