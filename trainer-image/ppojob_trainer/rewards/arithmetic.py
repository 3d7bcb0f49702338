r"""The value of an arithmetical expression in plain text or simple LaTeX. A parser of its own: nothing is evaluated.

Numbers, + - * / ^, brackets, \frac, \sqrt, \pi, mixed numbers, products without a sign. Exact as a fraction as long
as it can be. Bounded in length, depth and size of numbers: the text comes from a model.
"""

import math
import re
from fractions import Fraction

Value = Fraction | float

MAX_CHARACTERS = 200
_MAX_DEPTH = 30
_MAX_BITS = 2048
_MAX_EXPONENT = 64

_TOKEN = re.compile(r"\s*(\d+(?:\.\d*)?(?:[eE][+-]?\d{1,2}(?!\d))?|\.\d+|\\[a-zA-Z]+|[-+*/^(){}\[\]])")
_TIMES = {"*", "\\cdot", "\\times"}
_OVER = {"/", "\\div"}
_FRACTIONS = {"\\frac", "\\dfrac", "\\tfrac", "\\cfrac"}
_ROOT, _PI = {"\\sqrt"}, {"\\pi"}
_CLOSING = {"(": ")", "{": "}", "[": "]"}


def value_of(text: str) -> Value | None:
    """None for what is no such expression, and for one that is too large."""
    if not text or len(text) > MAX_CHARACTERS:
        return None
    try:
        parser = _Parser(_tokens(text))
        value = parser.sum(0)
        parser.end()
    except (_NoExpression, ArithmeticError, ValueError):
        return None
    return value if isinstance(value, Fraction) or math.isfinite(value) else None


class _NoExpression(Exception):
    """Not in the language above."""


def _tokens(text: str) -> list[str]:
    tokens, position = [], 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            if text[position:].isspace():
                break
            raise _NoExpression
        tokens.append(found.group(1))
        position = found.end()
    return tokens


class _Parser:
    """Recursive descent, one method a level of precedence."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._next = 0

    def end(self) -> None:
        if self._peek() is not None:
            raise _NoExpression

    def sum(self, depth: int) -> Value:
        if depth > _MAX_DEPTH:
            raise _NoExpression
        value = self._product(depth)
        while (sign := self._peek()) in {"+", "-"}:
            self._take()
            other = self._product(depth)
            value = _sized(value + other if sign == "+" else value - other)
        return value

    def _product(self, depth: int) -> Value:
        value = self._signed(depth)
        while (sign := self._peek()) is not None:
            if sign in _TIMES:
                self._take()
                value = _sized(value * self._signed(depth))
            elif sign in _OVER:
                self._take()
                value = _sized(value / self._signed(depth))
            elif sign in {"(", "{", "\\sqrt", "\\pi"}:
                value = _sized(value * self._power(depth))
            else:
                break
        return value

    def _signed(self, depth: int) -> Value:
        sign = 1
        while self._peek() in {"+", "-"}:
            sign = -sign if self._take() == "-" else sign
        return sign * self._power(depth)

    def _power(self, depth: int) -> Value:
        base = self._atom(depth)
        if self._peek() != "^":
            return base
        self._take()
        return _raised(base, self._signed(depth + 1) if self._peek() != "{" else self._atom(depth + 1))

    def _atom(self, depth: int) -> Value:
        token = self._take()
        if token[0].isdigit() or token[0] == ".":
            return self._number(token, depth)
        if token in _CLOSING:
            value = self.sum(depth + 1)
            if self._take() != _CLOSING[token]:
                raise _NoExpression
            return value
        if token in _FRACTIONS:
            return self._fraction(depth)
        if token in _ROOT:
            index = self._atom(depth + 1) if self._peek() == "[" else Fraction(2)
            return _raised(self._argument(depth), 1 / index)
        if token in _PI:
            return math.pi
        raise _NoExpression

    def _number(self, token: str, depth: int) -> Value:
        number = _sized(Fraction(token))
        if self._peek() in _FRACTIONS and isinstance(number, Fraction) and number.denominator == 1:
            self._take()
            return number + self._fraction(depth)  # 1\frac{1}{2} is one and a half
        return number

    def _fraction(self, depth: int) -> Value:
        above, below = self._argument(depth), self._argument(depth)
        return _sized(above / below)

    def _argument(self, depth: int) -> Value:
        """A group, or as TeX has it, one digit of what follows."""
        token = self._peek()
        if token is not None and token.isdigit() and len(token) > 1:
            self._tokens[self._next] = token[1:]
            return Fraction(token[0])
        return self._atom(depth + 1)

    def _peek(self) -> str | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _take(self) -> str:
        token = self._peek()
        if token is None:
            raise _NoExpression
        self._next += 1
        return token


def _sized(value: Value) -> Value:
    if isinstance(value, Fraction) and max(value.numerator.bit_length(), value.denominator.bit_length()) > _MAX_BITS:
        raise _NoExpression
    return value


def _raised(base: Value, exponent: Value) -> Value:
    if abs(float(exponent)) > _MAX_EXPONENT:
        raise _NoExpression
    if isinstance(exponent, Fraction) and exponent.denominator == 1:
        power: Value = base ** int(exponent)
        return _sized(power)
    if float(base) < 0:
        raise _NoExpression
    if isinstance(base, Fraction) and exponent == Fraction(1, 2):
        root = Fraction(math.isqrt(base.numerator), math.isqrt(base.denominator))
        if root * root == base:
            return root
    return float(float(base) ** float(exponent))
