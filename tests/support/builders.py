"""Short ways to the values that tests are about."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tests.support.judging import judge_rows

from ppojob_contract.journal import RowKind
from ppojob_contract.protocol import StepRow
from ppojob_operator.api.v1alpha1.guardrails import Guardrail
from ppojob_operator.api.v1alpha1.spec import PPOJobSpec
from ppojob_operator.domain.guardrails.episodes import Assessment
from ppojob_operator.domain.guardrails.guards import Guard, expand

NOW = datetime(2026, 1, 1, tzinfo=UTC)
UID = "0a1b2c3d-4e5f-6789-abcd-ef0123456789"


def raw_spec(**blocks: Any) -> dict[str, Any]:
    """A small valid spec; keyword arguments replace whole blocks."""
    spec: dict[str, Any] = {
        "model": {"actor": {"path": "/models/tiny"}},
        "data": {"train": ["/data/train.parquet"], "validation": ["/data/validation.parquet"]},
        "reward": {"terms": [{"name": "digits", "rule": {"type": "Regex", "pattern": "[0-9]", "mode": "Share"}}]},
        "training": {"totalSteps": 30, "batchSize": 16, "miniBatchSize": 8, "microBatchSizePerDevice": 8},
        "cluster": {"device": "CPU"},
        "storage": {"claimName": "ppojob"},
        "checkpoints": {"everySteps": 5, "confirmSteps": 3},
    }
    return spec | blocks


def spec(**blocks: Any) -> PPOJobSpec:
    return PPOJobSpec.model_validate(raw_spec(**blocks))


def raw_guardrail(**fields: Any) -> dict[str, Any]:
    return {
        "name": "kl",
        "conditions": [{"metric": "kl", "above": 0.2}],
        "forSteps": 3,
        "action": "Rollback",
    } | fields


def guard(**fields: Any) -> Guard:
    """What a guardrail of one rule comes to."""
    (found,) = expand(Guardrail.model_validate(raw_guardrail(**fields)))
    return found


def assess(guard: Guard, history: Sequence[StepRow], *, grace_through: int = 0) -> Assessment:
    """Of the only attempt there is."""
    rows = [(1, row) for row in history]
    (found,) = judge_rows([guard], rows, attempt=1, window=3, grace_through=grace_through).assessments
    return found


def row(step: int, kind: RowKind = RowKind.STEP, **values: float) -> StepRow:
    return StepRow(kind=kind, step=step, time=float(step), values={"gradNorm": 1.0, **values})


def rows(values: Sequence[float] | Mapping[int, float], metric: str = "kl", first: int = 1) -> list[StepRow]:
    """Step rows that carry one metric."""
    items = values.items() if isinstance(values, Mapping) else enumerate(values, start=first)
    return [row(step, RowKind.STEP, **{metric: value}) for step, value in items]
