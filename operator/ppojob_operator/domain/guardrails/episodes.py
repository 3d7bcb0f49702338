"""How often and how long a guardrail is bad: breaches."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from ppojob_operator.api.v1alpha1.guardrails import GuardrailAction
from ppojob_operator.api.v1alpha1.status import Verdict
from ppojob_operator.domain.guardrails.bounds import figure, in_words
from ppojob_operator.domain.guardrails.guards import Guard
from ppojob_operator.domain.guardrails.readings import Finding, Reading, State

_SEVERITY = [GuardrailAction.FAIL, GuardrailAction.PAUSE, GuardrailAction.ROLLBACK, GuardrailAction.WARN]


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """The moment at which a guardrail had been violated for long enough."""

    guardrail: Guard
    first_step: int
    """First of the bad observations."""
    reading: Reading

    @property
    def step(self) -> int:
        return self.reading.step

    @property
    def summary(self) -> str:
        conditions = self.guardrail.conditions
        values = " and ".join(
            f"{figure(condition)} was {value:.6g}"
            for condition, value in zip(conditions, self.reading.values, strict=True)
            if value is not None
        )
        bounds = " and ".join(map(in_words, conditions, self.reading.references))
        return f"{values} at step {self.step} (bad {bounds}), bad since step {self.first_step}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """A guardrail's fold over the rows of one attempt."""

    guardrail: Guard
    verdict: Verdict
    """Of the newest observation; silence of the monitor is the observer's to add, since rows cannot know of it."""
    episodes: tuple[Breach, ...]
    """Every time that it became breached, in order."""
    breach: Breach | None
    """The attempt's first breach that may act; it stays although later rows are good: no breach is missed."""
    failing: int
    """Bad ones of the newest observations that count."""
    reading: Reading | None
    """Of the newest row that could be judged."""
    missing: str | None
    """A figure of it that none of many rows had."""
    no_result: str | None = None
    """A query of it that had no single value at the newest row."""
    incomparable: float | None = None
    """The newest row's reference where it is below 0 and the bound a ratio of it."""

    @property
    def step(self) -> int | None:
        return self.reading.step if self.reading else None


class Counter:
    """Counts one guardrail along the rows of one attempt."""

    def __init__(self, guard: Guard, *, grace_through: int = 0) -> None:
        """Rollback guardrails do not act up to and with step `grace_through`, but on a value that is not finite."""
        self._guard = guard
        self._grace = grace_through if guard.action is GuardrailAction.ROLLBACK else 0
        self._recent: deque[tuple[int, bool]] = deque(maxlen=guard.of)
        self._failing = 0
        self._first: int | None = None
        self._episodes: list[Breach] = []
        self._breach: Breach | None = None
        self._reading: Reading | None = None
        self._no_result: str | None = None
        self._incomparable: float | None = None
        self._seen = [False] * len(guard.conditions)

    def see(self, reading: Reading) -> None:
        """The next row; one that is no observation leaves the count as it is."""
        state = reading.state
        self._note_absent(reading)
        if state in {State.UNJUDGED, State.PENDING}:
            return
        self._reading = reading
        if reading.step <= self._guard.after_step:
            return
        if state is State.GOOD and self._guard.count == self._guard.of:
            self._recent.clear()  # on end: what was before does not count any more
        self._recent.append((reading.step, state is State.BAD))
        self._failing = sum(bad for _, bad in self._recent)
        if self._failing < self._guard.count:
            self._first = None
            return
        begins = self._first is None
        if self._first is None:
            self._first = next(step for step, bad in self._recent if bad)
        now = Breach(guardrail=self._guard, first_step=self._first, reading=reading)
        if begins:
            self._episodes.append(now)
        may_act = reading.step > self._grace or not reading.finite
        if self._breach is None and state is State.BAD and may_act:
            self._breach = now

    def _note_absent(self, reading: Reading) -> None:
        self._no_result, self._incomparable = None, reading.incomparable
        for index, finding in enumerate(reading.findings):
            if finding is Finding.ABSENT:
                self._no_result = self._no_result or self._guard.conditions[index].promql
            elif finding is not Finding.PENDING:
                self._seen[index] = True

    def assessment(self, *, step_rows: int, validation_rows: int) -> Assessment:
        return Assessment(
            guardrail=self._guard,
            verdict=self._verdict(),
            episodes=tuple(self._episodes),
            breach=self._breach,
            failing=self._failing,
            reading=self._reading,
            missing=self._missing(step_rows, validation_rows),
            no_result=self._no_result,
            incomparable=self._incomparable,
        )

    def _verdict(self) -> Verdict:
        if self._no_result is not None:
            return Verdict.INCONCLUSIVE
        if not self._recent:
            return Verdict.WAITING
        return Verdict.BREACHED if self._failing >= self._guard.count else Verdict.HEALTHY

    def _missing(self, step_rows: int, validation_rows: int) -> str | None:
        unvalidated = self._guard.validates and validation_rows == 0
        if step_rows < self._guard.missing_after or unvalidated:
            return None
        for condition, seen in zip(self._guard.conditions, self._seen, strict=True):
            if condition.metric is not None and not seen:
                return condition.metric
        return None


def first_breach(assessments: Iterable[Assessment]) -> Breach | None:
    """The earliest breach that must be acted on; of those at one row the gravest, then the spec's order."""
    breaches = [item.breach for item in assessments if item.breach and item.guardrail.acts]
    return min(
        breaches, key=lambda breach: (breach.reading.row, _SEVERITY.index(breach.guardrail.action)), default=None
    )


def first_rollback(assessments: Iterable[Assessment]) -> Breach | None:
    """The earliest breach after which the weights are not trusted."""
    return first_breach(item for item in assessments if item.guardrail.rolls_back)
