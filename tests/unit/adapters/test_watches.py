"""A watch that brings nothing is told from one that does."""

from dataclasses import dataclass, field

import pytest

from ppojob_operator.adapters.kubernetes.watches import LATE_SECONDS, Watches


@dataclass
class Clocked:
    now: float = 0.0
    watches: Watches = field(init=False)

    def __post_init__(self) -> None:
        self.watches = Watches(monotonic=lambda: self.now)

    def late(self, seconds: float = LATE_SECONDS + 1) -> list[str]:
        self.now += seconds
        return list(self.watches.problems())


@pytest.fixture
def clocked() -> Clocked:
    return Clocked()


def test_what_a_list_showed_has_to_be_told(clocked: Clocked) -> None:
    clocked.watches.listed("pods", {"a": 5, "b": 6}, 7)
    assert clocked.late(LATE_SECONDS) == []
    assert clocked.late(1) == ["watch of pods: has not told for 91 s what a list showed"]
    clocked.watches.told("pods", "a", 5)
    assert clocked.late() != []
    clocked.watches.told("pods", "b", 9)
    assert clocked.late() == []


def test_a_later_list_starts_no_new_waiting(clocked: Clocked) -> None:
    clocked.watches.listed("pods", {"a": 5}, 5)
    clocked.now += LATE_SECONDS
    clocked.watches.listed("pods", {"a": 50}, 50)
    assert clocked.late(1) != []


def test_kinds_are_apart(clocked: Clocked) -> None:
    clocked.watches.listed("pods", {"a": 5}, 5)
    clocked.watches.told("rayjobs", "a", 5)
    assert [line.partition(":")[0] for line in clocked.late()] == ["watch of pods"]


QUIET: dict[str, list[tuple[str, int] | tuple[dict[str, int], int]]] = {
    "nothing there": [({}, 9)],
    "told before it was listed": [("a", 5), ({"a": 5}, 9)],
    "told of its end while the list was on its way": [("a", 8), ({"a": 5}, 5)],
    "told of a creation after the list": [("a", 8), ({}, 7), ({"a": 8}, 9)],
    "gone without a word": [({"a": 5}, 5), ({}, 9)],
}
"""Told are a UID and its version, listed are versions by UID and that of the list."""


@pytest.mark.parametrize("story", QUIET.values(), ids=list(QUIET))
def test_no_false_alarm(clocked: Clocked, story: list[tuple[str, int] | tuple[dict[str, int], int]]) -> None:
    for what, version in story:
        if isinstance(what, str):
            clocked.watches.told("pods", what, version)
        else:
            clocked.watches.listed("pods", what, version)
    assert clocked.late() == []


def test_what_is_gone_is_forgotten(clocked: Clocked) -> None:
    for number in range(100):
        clocked.watches.told("pods", str(number), number)
    clocked.watches.listed("pods", {}, 1000)
    assert clocked.watches._kinds["pods"].told == {}
