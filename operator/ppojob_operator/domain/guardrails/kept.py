"""A fold that goes on where it was: a pass over a quiet job does not read thousands of rows again.

Only a shortcut. What it may be used for is compared with what it was made from; where that differs, or where a query's
result may still come, the fold begins anew and comes to the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from ppojob_contract.protocol import StepRow
from ppojob_operator.api.v1alpha1.spec import PPOJobSpec
from ppojob_operator.domain.guardrails.cleanness import window
from ppojob_operator.domain.guardrails.fold import Fold, Judged, begin
from ppojob_operator.domain.guardrails.guards import guards_of
from ppojob_operator.domain.guardrails.readings import Results
from ppojob_operator.domain.lineage import Segment, along


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What a fold is made from, beside the rows."""

    spec: PPOJobSpec
    attempt: int
    grace_through: int
    segments: tuple[Segment, ...]

    def same(self, other: "Basis") -> bool:
        """The spec is parsed once a generation, so that being the same object is enough, and quick."""
        return (
            self.spec is other.spec
            and (self.attempt, self.grace_through) == (other.attempt, other.grace_through)
            and self.segments == other.segments
        )


@dataclass(slots=True)
class Kept:
    """Of one job; empty at first."""

    basis: Basis | None = None
    counts: tuple[int, ...] = ()
    """Rows of each attempt of the lineage; they are only ever added to."""
    fold: Fold | None = None

    def judge(self, basis: Basis, rows: Mapping[int, Sequence[StepRow]], results: Results) -> Judged:
        """As the whole lineage says."""
        counts = tuple(len(rows.get(segment.attempt, ())) for segment in basis.segments)
        if self.fold is None or not self._continues(basis, counts):
            self.fold = begin(
                guards_of(basis.spec),
                attempt=basis.attempt,
                window=window(basis.spec),
                grace_through=basis.grace_through,
                results=results,
            )
        for attempt, row in islice(along(basis.segments, rows), self.fold.rows, None):
            self.fold.see(attempt, row)
        self.basis, self.counts = basis, counts
        return self.fold.judged()

    def _continues(self, basis: Basis, counts: tuple[int, ...]) -> bool:
        return (
            self.basis is not None
            and self.basis.same(basis)
            and self.fold is not None
            and not any(condition.promql for track in self.fold.tracks for condition in track.guard.conditions)
            and counts[:-1] == self.counts[:-1]
            and counts[-1:] >= self.counts[-1:]
        )
