import json
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppojob_trainer.rewards.function import compute_score
from ppojob_trainer.rewards.rules import exact_match, gsm8k, regex, rule
from ppojob_trainer.rewards.terms import FAILED_KEY, build, decode, encode, total


@pytest.mark.parametrize(
    ("response", "truth", "score"),
    [
        ("so 6 * 7 = 42\n#### 42", "42", 1.0),
        ("#### 41 then #### 42", "#### 42", 1.0),
        ("it is 1,234.50", "1234.5", 1.0),
        ("#### $-3", "-3", 1.0),
        ("the answer is 41", "42", 0.0),
        ("no idea", "42", 0.0),
        ("", "", 0.0),
    ],
)
def test_gsm8k(response: str, truth: str, score: float) -> None:
    assert gsm8k(response, truth) == score


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
    "spec", [{"type": "Magic"}, {"type": "Regex", "pattern": "("}, {"type": "Regex", "pattern": "a", "mode": "Half"}]
)
def test_impossible_rules(spec: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"unknown|pattern"):
        rule(spec)


def test_weighted_sum_and_parts() -> None:
    terms = [
        {"name": "digits", "weight": 0.5, "rule": {"type": "Regex", "pattern": "[0-9]", "mode": "Share"}},
        {"name": "right", "weight": 2.0, "rule": {"type": "GSM8K"}},
    ]
    result = compute_score(data_source="x", solution_str="42", ground_truth="42", extra_info={}, terms=encode(terms))
    assert result == {"score": 2.5, FAILED_KEY: 0.0, "term_digits": 1.0, "term_right": 1.0}


def test_encoded_terms_hold_no_interpolation() -> None:
    terms = [{"name": "r", "rule": {"type": "Regex", "pattern": "^a${2}$"}}]
    assert "$" not in encode(terms)
    assert json.loads(encode(terms)) == terms


def user_term(folder: Path, code: str, **changes: str) -> dict[str, object]:
    path = folder / "reward.py"
    path.write_text(code)
    return {"name": "own", "weight": 1.0, "function": {"path": str(path), "name": "compute"} | changes}


def test_a_users_function(tmp_path: Path) -> None:
    code = "def compute(source, text, truth, extra):\n    return {'score': len(text) + extra['index']}\n"
    (term,) = decode(encode([user_term(tmp_path, code)]))
    assert total([term], "s", "abc", None, {"index": 4})["score"] == 7.0


def test_a_function_that_raises_counts_as_failed_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    term = build(user_term(tmp_path, "def compute(*_):\n    raise KeyError('nope')\n"))
    good = build({"name": "good", "weight": 3.0, "rule": {"type": "ExactMatch"}})
    with caplog.at_level(logging.ERROR):
        results = [total([term, good], "s", "x", "x", None) for _ in range(3)]
    assert all(result["score"] == 3.0 and result[FAILED_KEY] == 1.0 for result in results)
    assert len(caplog.records) == 1
    assert "KeyError: 'nope'" in caplog.text


def test_files_and_names_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a Python file"):
        build({"name": "own", "function": {"path": str(tmp_path / "none.py"), "name": "compute"}})
    with pytest.raises(TypeError, match="no function 'other'"):
        build(user_term(tmp_path, "compute = 1\n", name="other"))
    with pytest.raises(ValueError, match="kind"):
        build({"name": "m", "model": {"path": "x"}})
