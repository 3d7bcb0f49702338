"""All guardrails along a lineage, row by row, each row judged by the ones before it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ppojob_contract.journal import CHECKPOINT_SAVED, RowKind
from ppojob_contract.protocol import StepRow
from ppojob_operator.api.v1alpha1.status import CheckpointPhase
from ppojob_operator.domain.guardrails.cleanness import CleanRows, cleanness
from ppojob_operator.domain.guardrails.episodes import Assessment, Counter
from ppojob_operator.domain.guardrails.guards import Guard
from ppojob_operator.domain.guardrails.readings import Reader, Reading, Results, State, no_queries


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What the rows say."""

    assessments: tuple[Assessment, ...]
    """Of the current attempt, in the guards' order."""
    clean: CleanRows
    """Of the whole lineage."""
    pending: bool
    """A query was not asked yet: more may follow from the same rows."""


@dataclass(slots=True)
class _Track:
    """One guard on its way along the rows."""

    reader: Reader
    counter: Counter
    stopped: bool = False
    """At a row whose query was not asked yet."""

    @property
    def guard(self) -> Guard:
        return self.reader.guard


@dataclass(slots=True)
class Fold:
    """On its way along the rows."""

    attempt: int
    tracks: Sequence[_Track]
    clean: CleanRows
    follows_confirmed: bool
    uncertain: bool = False
    """A Rollback guardrail waits for the result of a query."""
    saved: list[int] = field(default_factory=list)
    """Checkpoints that may still become Confirmed."""
    rows: int = 0
    step_rows: int = 0
    validation_rows: int = 0

    def see(self, attempt: int, row: StepRow) -> None:
        """The next row of the lineage."""
        self.rows += 1
        if row.kind is RowKind.EVENT:
            if row.event == CHECKPOINT_SAVED and self.follows_confirmed:
                self.saved.append(row.step)
            return
        if attempt == self.attempt:
            self.step_rows += row.kind is RowKind.STEP
            self.validation_rows += row.kind is RowKind.VALIDATION
        self._judge(row, [(track, self._read(track, attempt, row)) for track in self.tracks])
        self.uncertain = any(track.stopped and track.guard.rolls_back for track in self.tracks)
        if self.follows_confirmed:
            self._confirm(row.step)

    def judged(self) -> Judged:
        """What all rows so far say."""
        return Judged(
            assessments=tuple(
                track.counter.assessment(step_rows=self.step_rows, validation_rows=self.validation_rows)
                for track in self.tracks
            ),
            clean=self.clean,
            pending=any(track.stopped for track in self.tracks),
        )

    def _read(self, track: _Track, attempt: int, row: StepRow) -> Reading | None:
        current = attempt == self.attempt
        if not current and not track.reader.looks_back:
            return None
        # What is Confirmed depends on all Rollback guardrails: where one waits, so does what is compared with it.
        track.stopped = track.stopped or (self.uncertain and track.reader.follows_confirmed)
        reading = track.reader.read(row, self.rows)
        if reading is not None and reading.state is State.PENDING:
            track.stopped = True
        if reading is not None and current and not track.stopped:
            track.counter.see(reading)
        return reading

    def _judge(self, row: StepRow, found: Iterable[tuple[_Track, Reading | None]]) -> None:
        judging = [(track.guard, reading) for track, reading in found if reading and track.guard.rolls_back]
        if row.kind is RowKind.STEP:
            self.clean.add(row.step, cleanness(row, judging))
            return
        for guard, reading in judging:
            if reading.clean is not None:
                self.clean.validations[guard.name].append((row.step, reading.clean))

    def _confirm(self, step: int) -> None:
        waiting = []
        for saved in self.saved:
            phase = self.clean.trust(saved)[0] if saved < step else CheckpointPhase.COMPLETE
            if phase is CheckpointPhase.CONFIRMED:
                for track in self.tracks:
                    track.reader.confirmed(saved)
            elif phase is CheckpointPhase.COMPLETE:
                waiting.append(saved)
        self.saved = waiting


def begin(
    guards: Sequence[Guard], *, attempt: int, window: int, grace_through: int = 0, results: Results = no_queries
) -> Fold:
    """Nothing judged yet. Counts begin with `attempt`; references and cleanness reach back behind it."""
    tracks = [_Track(Reader(guard, results), Counter(guard, grace_through=grace_through)) for guard in guards]
    clean = CleanRows(window)
    clean.validations = {guard.name: [] for guard in guards if guard.rolls_back and guard.validates}
    return Fold(attempt, tracks, clean, any(track.reader.follows_confirmed for track in tracks))
