"""Whose answer is better, and what that says of the two models."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from ppojob_trainer.stages.intervals import wilson


class Outcome(StrEnum):
    """For the candidate."""

    WIN = "win"
    TIE = "tie"
    LOSS = "loss"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """On one question."""

    number: int
    outcome: Outcome | None
    """None: the judge said nothing that can be used."""
    margin: float = 0.0
    """Candidate's score less the baseline's; of a judge that only compares, -1 to 1."""
    scores: tuple[float, float] | None = None
    """Candidate's and baseline's."""
    swap_disagreed: bool = False
    """Asked in the other order, the judge preferred another answer."""
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "outcome": self.outcome,
            "margin": self.margin,
            "scores": self.scores,
            "swapDisagreed": self.swap_disagreed,
            "note": self.note,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        scores = value["scores"]
        return cls(
            number=value["number"],
            outcome=None if value["outcome"] is None else Outcome(value["outcome"]),
            margin=value["margin"],
            scores=None if scores is None else (scores[0], scores[1]),
            swap_disagreed=value["swapDisagreed"],
            note=value["note"],
        )


def by_scores(number: int, candidate: float, baseline: float, tie_margin: float) -> Verdict:
    """Scores that differ by no more than `tie_margin` are a tie; who comes first does not matter to a score."""
    margin = candidate - baseline
    if not math.isfinite(margin):
        return Verdict(number=number, outcome=None, note=f"scores {candidate} and {baseline}")
    outcome = Outcome.TIE if abs(margin) <= tie_margin else Outcome.WIN if margin > 0 else Outcome.LOSS
    return Verdict(number=number, outcome=outcome, margin=margin, scores=(candidate, baseline))


def by_orders(number: int, first: Outcome | None, second: Outcome | None, note: str = "") -> Verdict:
    """Of a judge that was asked in both orders: it wins who wins in both, anything else is a tie."""
    if first is None or second is None:
        return Verdict(number=number, outcome=None, note=note or "no verdict in the judge's answer")
    outcome = first if first is second else Outcome.TIE
    margin = (_points(first) + _points(second)) / 2
    return Verdict(number=number, outcome=outcome, margin=margin, swap_disagreed=first is not second, note=note)


@dataclass(slots=True)
class Tally:
    """Of some verdicts."""

    wins: int = 0
    ties: int = 0
    losses: int = 0

    @property
    def judged(self) -> int:
        return self.wins + self.ties + self.losses

    @property
    def win_rate(self) -> float:
        """Ties count half; 0.5 where nothing was judged."""
        return (self.wins + self.ties / 2) / self.judged if self.judged else 0.5

    @property
    def interval(self) -> tuple[float, float]:
        """95 %."""
        return wilson(self.wins + self.ties / 2, self.judged)

    def add(self, outcome: Outcome) -> None:
        match outcome:
            case Outcome.WIN:
                self.wins += 1
            case Outcome.TIE:
                self.ties += 1
            case Outcome.LOSS:
                self.losses += 1


@dataclass(slots=True)
class Summary:
    """Of an evaluation."""

    all: Tally = field(default_factory=Tally)
    categories: dict[str, Tally] = field(default_factory=dict)
    """By name; empty where the questions have none."""
    swaps_disagreed: int = 0
    unjudged: int = 0
    mean_scores: tuple[float, float] | None = None

    def figures(self) -> dict[str, float]:
        """Categories last: there may be more than figures are kept."""
        low, high = self.all.interval
        found = {
            "winRate": self.all.win_rate,
            "winRateLow": low,
            "winRateHigh": high,
            "wins": float(self.all.wins),
            "ties": float(self.all.ties),
            "losses": float(self.all.losses),
            "prompts": float(self.all.judged),
            "unjudged": float(self.unjudged),
            "swapsDisagreed": float(self.swaps_disagreed),
        }
        if self.mean_scores is not None:
            found |= {"candidateScore": self.mean_scores[0], "baselineScore": self.mean_scores[1]}
        return found | {f"winRate/{name}": tally.win_rate for name, tally in sorted(self.categories.items())}


def summary(verdicts: Sequence[Verdict], categories: Mapping[int, str]) -> Summary:
    """`categories`: of the questions, by number; "" for none."""
    found = Summary()
    for verdict in verdicts:
        if verdict.outcome is None:
            found.unjudged += 1
            continue
        found.all.add(verdict.outcome)
        found.swaps_disagreed += verdict.swap_disagreed
        if category := categories[verdict.number]:
            found.categories.setdefault(category, Tally()).add(verdict.outcome)
    found.mean_scores = _means(verdict.scores for verdict in verdicts if verdict.scores is not None)
    return found


def _means(scores: Iterable[tuple[float, float]]) -> tuple[float, float] | None:
    pairs = list(scores)
    if not pairs:
        return None
    return sum(pair[0] for pair in pairs) / len(pairs), sum(pair[1] for pair in pairs) / len(pairs)


def _points(outcome: Outcome) -> int:
    return {Outcome.WIN: 1, Outcome.TIE: 0, Outcome.LOSS: -1}[outcome]
