"""What one look at a running attempt says: `tests/unit/controller` has the stories."""

from typing import Any

import pytest
from tests.support.builders import UID, raw_guardrail, raw_spec, row, rows
from tests.support.observations import attempt, attempt_state, observation

from ppojob_contract.journal import RowKind
from ppojob_contract.mailbox import CheckpointRef
from ppojob_contract.outcomes import ExitClass, Outcome
from ppojob_contract.protocol import AttemptState, CheckpointState, LockState, State, StepRow
from ppojob_operator.api.v1alpha1.status import (
    CheckpointPhase,
    Checkpoints,
    CheckpointStatus,
    PPOJobStatus,
    ResumePoint,
)
from ppojob_operator.domain.guardrails.queries import GIVE_UP_SECONDS, Queries
from ppojob_operator.domain.judgement import Judgement, judge
from ppojob_operator.domain.observation import MonitorView, Reach

GOOD, BAD = 0.1, 0.3
RULE = raw_guardrail(forSteps=1)
CONFIRMED, COMPLETE, SUSPECT = CheckpointPhase.CONFIRMED, CheckpointPhase.COMPLETE, CheckpointPhase.SUSPECT


def ref(step: int, attempt: int = 1) -> CheckpointRef:
    return CheckpointRef(attempt=attempt, step=step)


def monitor(known: list[StepRow], *states: AttemptState, steps: tuple[int, ...] = (), **fields: Any) -> MonitorView:
    there = tuple(
        CheckpointState(ref=ref(step), problem=None, saving=False, size_bytes=10, world_size=1) for step in steps
    )
    values: dict[str, Any] = {"lock": LockState.HELD, "attempts": states, "confirmed": ()} | fields
    state = State(job_uid=UID, pod_uid="head-1", checkpoints=there, **values)
    return MonitorView(reach=Reach.OK, state=state, rows={1: tuple(known)} if known else {})


def look(
    view: MonitorView,
    *,
    rule: dict[str, Any] = RULE,
    resume: int | None = None,
    known: tuple[int, ...] = (),
    queries: Queries | None = None,
) -> Judgement:
    point = None if resume is None else ResumePoint(attempt=0, step=resume)
    items = [CheckpointStatus(attempt=1, step=step, phase=CONFIRMED) for step in known]
    status = PPOJobStatus(attempt=attempt(resume=point), checkpoints=Checkpoints(items=items))
    spec = raw_spec(guardrails=[rule], defaultGuardrails=False, rollback={"graceSteps": 5})
    return judge(observation(status, spec=spec, monitor=view, queries=queries))


def acts_at(judgement: Judgement) -> int | None:
    return judgement.breach.step if judgement.breach else None


def test_the_first_row_acts_but_in_the_grace_after_a_resume():
    assert acts_at(look(monitor(rows([BAD])))) == 1
    assert acts_at(look(monitor(rows([BAD] * 5, first=11)), resume=10)) is None
    assert acts_at(look(monitor(rows([BAD] * 6, first=11)), resume=10)) == 16


def test_the_newest_step_is_that_of_a_step_row():
    known = [*rows([GOOD] * 3), row(3, RowKind.VALIDATION, validationReward=1.0)]
    assert look(monitor(known)).last_row == known[2]
    assert look(monitor([])).last_row is None


def test_rows_that_were_not_read_yet_are_not_judged():
    assert look(monitor(rows([GOOD] * 3), attempt_state(rows=3))).everything_judged
    assert not look(monitor(rows([GOOD] * 3), attempt_state(rows=4))).everything_judged
    assert not look(monitor(rows([GOOD] * 3))).everything_judged
    assert look(monitor([], attempt_state(rows=0))).everything_judged


@pytest.mark.parametrize(
    ("queries", "judged"),
    [
        (None, True),
        (Queries(interval_seconds=1.0), False),
        (Queries(interval_seconds=1.0, results={"up": {0: 0.0, 1: 0.0}}), False),
        (Queries(interval_seconds=1.0, results={"up": {1: 0.0, 2: 0.0}}), True),
        (Queries(interval_seconds=1.0, silent_seconds=GIVE_UP_SECONDS - 1), False),
        (Queries(interval_seconds=1.0, silent_seconds=GIVE_UP_SECONDS), True),
    ],
)
def test_prometheus_is_waited_for_but_not_for_ever(queries, judged):
    asks = raw_guardrail(conditions=[{"promql": "up", "above": 1}])
    assert (
        look(monitor(rows([GOOD] * 2), attempt_state(rows=2)), rule=asks, queries=queries).everything_judged is judged
    )


def phases(judgement: Judgement) -> list[tuple[int, CheckpointPhase]]:
    return [(item.ref.step, item.phase) for item in judgement.checkpoints or ()]


def test_what_is_known_of_checkpoints_comes_from_the_rows_the_claim_and_the_status():
    view = monitor(rows([GOOD] * 11), steps=(5, 10))
    assert phases(look(view)) == [(5, CONFIRMED), (10, COMPLETE)]
    assert phases(look(view, known=(10,))) == [(5, CONFIRMED), (10, CONFIRMED)]
    assert phases(look(view, known=(9,))) == [(5, CONFIRMED), (10, COMPLETE)]
    on_the_claim = monitor(rows([GOOD] * 11), steps=(5, 10), confirmed=(ref(10),))
    assert phases(look(on_the_claim)) == [(5, CONFIRMED), (10, CONFIRMED)]
    other = monitor(rows([GOOD] * 11), steps=(5, 10), confirmed=(ref(10, attempt=2),))
    assert phases(look(other)) == [(5, CONFIRMED), (10, COMPLETE)]


def test_what_led_to_a_breach_is_suspect():
    bad = [GOOD] * 11 + [BAD]
    assert phases(look(monitor(rows(bad), steps=(5, 10, 11)), known=(5, 10, 11))) == [
        (5, CONFIRMED),
        (10, CONFIRMED),
        (11, SUSPECT),
    ]


@pytest.mark.parametrize(
    ("how", "values", "expected"),
    [
        (ExitClass.SUCCEEDED, [GOOD] * 11, CONFIRMED),
        (ExitClass.HANG, [GOOD] * 11, COMPLETE),
        (None, [GOOD] * 11, COMPLETE),
        (ExitClass.SUCCEEDED, [GOOD] * 10 + [BAD], SUSPECT),
    ],
)
def test_only_a_run_that_is_done_and_good_needs_no_more_rows(how, values, expected):
    ended = None if how is None else Outcome(exit_class=how, message="so", step=len(values))
    view = monitor(rows(values), attempt_state(rows=len(values), outcome=ended), steps=(10,))
    assert phases(look(view)) == [(10, expected)]


def test_a_claim_that_nobody_looked_at_leaves_the_status_as_it_is():
    assert look(MonitorView(reach=Reach.UNREACHABLE, message="refused")).checkpoints is None
    assert judge(observation(PPOJobStatus())) == Judgement()
