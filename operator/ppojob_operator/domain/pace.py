"""How fast a run is."""

import statistics
from collections.abc import Sequence

from ppojob_contract.journal import RowKind
from ppojob_contract.protocol import StepRow

RECENT_STEPS = 20


def median_step_seconds(rows: Sequence[StepRow]) -> float | None:
    """Median duration of the last steps, in seconds; None where no row has one."""
    durations = [row.values["stepSeconds"] for row in rows if row.kind is RowKind.STEP and "stepSeconds" in row.values]
    return statistics.median(durations[-RECENT_STEPS:]) if durations else None
