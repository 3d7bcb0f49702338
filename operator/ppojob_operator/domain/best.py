"""Which checkpoints a validation says are the best."""

import math
from collections.abc import Mapping, Sequence

from ppojob_contract.journal import RowKind
from ppojob_contract.mailbox import CheckpointRef
from ppojob_contract.protocol import StepRow
from ppojob_operator.api.v1alpha1.checkpoints import Goal, KeepBest
from ppojob_operator.api.v1alpha1.status import BestCheckpoint, CheckpointPhase
from ppojob_operator.domain.checkpoints import JudgedCheckpoint


def best_checkpoints(
    policy: KeepBest | None, checkpoints: Sequence[JudgedCheckpoint], rows: Mapping[int, Sequence[StepRow]]
) -> tuple[BestCheckpoint, ...]:
    """The best Confirmed ones by the validation of their own step, best first; of equal ones the newer."""
    if policy is None:
        return ()
    sign = 1.0 if policy.goal is Goal.MAXIMIZE else -1.0
    found = [
        (sign * value, item.ref.step, item.ref.attempt, value)
        for item in checkpoints
        if item.phase is CheckpointPhase.CONFIRMED
        and (value := _validation(item.ref, policy.metric, rows.get(item.ref.attempt, ()))) is not None
    ]
    return tuple(
        BestCheckpoint(attempt=attempt, step=step, value=f"{value:.6g}")
        for _, step, attempt, value in sorted(found, reverse=True)[: policy.count]
    )


def _validation(ref: CheckpointRef, metric: str, rows: Sequence[StepRow]) -> float | None:
    for row in rows:
        if row.kind is RowKind.VALIDATION and row.step == ref.step:
            value = row.values.get(metric)
            if value is not None and math.isfinite(value):
                return value
    return None
