"""Specs and figures of runs in which anything may happen."""

import math
from collections.abc import Mapping
from typing import Any

import hypothesis.strategies as st
from tests.support.builders import raw_guardrail, raw_spec
from tests.support.scripts import BAD, GOOD

from ppojob_contract.outcomes import ExitClass

LEARNING_RATE, FACTOR = 1e-3, 0.5


class Weather:
    """What happens to the figures of a run: its script, changed while it is played."""

    def __init__(self) -> None:
        self.spells: list[tuple[int, int, int]] = []
        """(first step, length, rollbacks that cure it)."""
        self.absent: set[int] = set()
        self.not_finite: set[int] = set()
        self.ends: dict[tuple[int, int], ExitClass] = {}
        self.reached = (0, 0)

    def __call__(self, attempt: int, step: int, settings_: Mapping[str, float]) -> dict[str, float]:
        self.reached = (attempt, step)
        if (attempt, step) in self.ends:
            return {"raise": float(list(ExitClass).index(self.ends[attempt, step]))}
        rate = settings_.get("LearningRate", LEARNING_RATE)
        cures = round(math.log(rate / LEARNING_RATE, FACTOR))
        bad = any(first <= step < first + length and cures < cure for first, length, cure in self.spells)
        values = {"kl": BAD if bad else GOOD}
        if step in self.absent:
            del values["kl"]
        if step in self.not_finite:
            values["kl"] = math.nan
        return values


def specs() -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        _spec,
        total=st.integers(24, 50),
        every=st.sampled_from([3, 5]),
        confirm=st.integers(1, 3),
        limit=st.sampled_from([3, 2, 1, 0]),
        grace=st.sampled_from([0, 3]),
        path=st.sampled_from(["Auto", "Cold"]),
        guard=guards(),
        restarts=st.sampled_from([0, 1, 3, 3]),
    )


def guards() -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda steps, after, acts: raw_guardrail(
            forSteps=steps, afterStep=after, action="Rollback" if acts else "Warn"
        ),
        st.integers(1, 4),
        st.sampled_from([0, 6]),
        st.sampled_from([True, True, True, False]),
    )


def _spec(
    *, total: int, every: int, confirm: int, limit: int, grace: int, path: str, guard: dict[str, Any], restarts: int
) -> dict[str, Any]:
    return raw_spec(
        training=raw_spec()["training"] | {"totalSteps": total, "learningRate": LEARNING_RATE},
        checkpoints={"everySteps": every, "confirmSteps": confirm},
        guardrails=[guard],
        rollback={
            "limit": limit,
            "graceSteps": grace,
            "path": path,
            "adjust": [{"parameter": "LearningRate", "multiply": FACTOR}],
        },
        failurePolicy={"startupTimeoutSeconds": 60, "maxRestarts": restarts},
        gracefulStopSeconds=20,
    )
