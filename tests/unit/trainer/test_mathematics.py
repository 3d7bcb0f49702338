from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppojob_trainer.rewards.arithmetic import value_of
from ppojob_trainer.rewards.mathematics import final_answer, math_equality, same


@pytest.mark.parametrize(
    ("response", "truth"),
    [
        (r"\boxed{\frac{1}{2}}", "0.5"),
        (r"first \boxed{41}, no, \boxed{42}.", "42"),
        ("The answer is 1,234.", "1234"),
        ("The answer is 3, as we saw", "3"),
        ("Answer: 50%", "0.5"),
        (r"50\%", "50"),
        (r"\boxed{10\%}", r"\frac{1}{10}"),
        (r"\boxed{\sqrt{8}}", r"2\sqrt{2}"),
        (r"\boxed{1\frac12}", "3/2"),
        (r"\boxed{(1, 2)}", "(1,2)"),
        (r"\boxed{\left(3, \frac{\pi}{2}\right)}", r"(3,\pi/2)"),
        (r"\boxed{1,2,3}", "1, 2, 3"),
        ("x = 5", "5"),
        (r"\boxed{5\text{ cm}}", "5"),
        (r"\boxed{90^\circ}", "90"),
        (r"\boxed{x+1}", "x + 1"),
        (r"\boxed{\frac{a}{b}}", r"\frac{a}{b}"),
        ("0.3333333", "1/3"),
        (r"$\pi$", "3.14159265"),
        (r"\boxed{\$18.00}", "18"),
        ("so it is\n#### 18", "reasons\n#### 18"),
        ("7 apples and then 18 apples", "18"),
        ("It costs $-3", "-3"),
        ("So it is 3/4 of it", "0.75"),
        (r"\boxed{-\frac{3}{4}}", "-0.75"),
        ("2^10", "1024"),
        ("yes", "yes"),
    ],
)
def test_the_same_in_other_words(response: str, truth: str) -> None:
    assert math_equality(response, truth) == 1.0


@pytest.mark.parametrize(
    ("response", "truth"),
    [
        (r"\boxed{(1,2)}", "(2,1)"),
        (r"\boxed{(1,2]}", "(1,2)"),
        (r"\boxed{2x}", "2"),
        (r"\boxed{42", "42"),
        (r"\boxed{}", "3"),
        ("50%", "50.5"),
        ("5%", "50%"),
        ("1000000", "1000001"),
        ("0.333", "1/3"),
        ("no idea", "42"),
        ("", ""),
        ("", "42"),
    ],
)
def test_not_the_same(response: str, truth: str) -> None:
    assert math_equality(response, truth) == 0.0


@pytest.mark.parametrize(
    "text",
    [
        "9^9^9^9",
        "9^{64}" + "^{64}" * 20,
        "(" * 150 + "1" + ")" * 150,
        "1/0",
        "0^{-1}",
        "\\frac{1}{0}",
        "__import__('os')",
        "1e99" * 30,
        "-" * 180 + "1",
    ],
)
def test_what_is_too_large_or_no_number_has_no_value(text: str) -> None:
    value = value_of(text)
    assert value is None or abs(value) <= 10**99


@pytest.mark.parametrize(
    "text", [r"\boxed{" * 20_000, "1," * 50_000, "(" * 100_000, r"\text{" * 20_000, "#### " * 30_000]
)
def test_hostile_text_costs_little(text: str) -> None:
    assert math_equality(text, "1") in {0.0, 1.0}  # the suite's own time limit is the bound


@given(st.fractions(max_denominator=10_000), st.sampled_from(["{n}/{d}", r"\frac{{{n}}}{{{d}}}", r"({n})/({d})"]))
def test_a_fraction_has_its_value_however_it_is_written(number: Fraction, form: str) -> None:
    assert value_of(form.format(n=number.numerator, d=number.denominator)) == number


@given(
    st.decimals(min_value=-(10**9), max_value=10**9, places=4),
    st.sampled_from(["{}", "{:,}", r"\boxed{{{}}}", "it is {}"]),
)
def test_a_decimal_equals_itself(number: object, form: str) -> None:
    assert math_equality(form.format(number), f"{number:f}") == 1.0


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_is_judged_and_equality_has_no_direction(one: str, other: str) -> None:
    assert same(one, other) == same(other, one)
    assert math_equality(one, other) in {0.0, 1.0}
    final_answer(one)
