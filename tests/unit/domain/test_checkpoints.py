import dataclasses
import math

import pytest
from tests.support.builders import guard, raw_guardrail, row, rows, spec
from tests.support.judging import judge_rows

from ppojob_contract.journal import RowKind
from ppojob_contract.mailbox import CheckpointRef
from ppojob_contract.protocol import CheckpointState, StepRow
from ppojob_operator.api.v1alpha1.status import CheckpointPhase
from ppojob_operator.domain.checkpoints import Evidence, judge_checkpoint
from ppojob_operator.domain.guardrails.cleanness import Cleanness, CleanRows, cleanness, window
from ppojob_operator.domain.guardrails.episodes import Breach
from ppojob_operator.domain.guardrails.readings import Reading
from ppojob_operator.domain.lineage import Segment

GOOD, BAD = 0.1, 0.3
ONE_ATTEMPT = (Segment(1, 0, math.inf),)


def state(step: int, attempt: int = 1, *, problem: str | None = None, saving: bool = False) -> CheckpointState:
    return CheckpointState(
        ref=CheckpointRef(attempt=attempt, step=step), problem=problem, saving=saving, size_bytes=10, world_size=1
    )


def evidence(history, guards=(guard(),), lineage=ONE_ATTEMPT, **more) -> Evidence:
    judged = judge_rows(guards, [(1, item) for item in history], attempt=1, window=3)
    return Evidence(lineage=lineage, clean=judged.clean, attempt=1, **more)


def phase(step, history, **more) -> CheckpointPhase:
    return judge_checkpoint(state(step), evidence(history, **more), frozenset()).phase


def test_confirmed_by_clean_rows_behind_it():
    history = rows([GOOD] * 13)
    assert phase(10, history[:12]) is CheckpointPhase.COMPLETE
    assert phase(10, history) is CheckpointPhase.CONFIRMED


def test_says_how_many_rows_are_lacking():
    judged = judge_checkpoint(state(10), evidence(rows([GOOD] * 11)), frozenset())
    assert judged.message == "1 of 3 clean steps behind it"


@pytest.mark.parametrize("bad_step", [8, 9, 10, 11, 12, 13])
def test_one_bad_row_in_the_window_makes_it_suspect(bad_step):
    history = rows([BAD if step == bad_step else GOOD for step in range(1, 20)])
    assert phase(10, history) is CheckpointPhase.SUSPECT


@pytest.mark.parametrize("bad_step", [7, 14])
def test_a_bad_row_outside_the_window_does_not_matter(bad_step):
    history = rows([BAD if step == bad_step else GOOD for step in range(1, 20)])
    assert phase(10, history) is CheckpointPhase.CONFIRMED


def test_a_raw_condition_counts_whatever_for_steps_and_after_step_say():
    guards = (guard(forSteps=3, afterStep=100),)
    assert phase(10, rows([GOOD] * 11 + [BAD]), guards=guards) is CheckpointPhase.SUSPECT


def test_a_non_finite_update_is_not_clean():
    history = [row(step, kl=GOOD, gradNorm=math.nan if step == 12 else 1.0) for step in range(1, 15)]
    assert phase(10, history, guards=()) is CheckpointPhase.SUSPECT


def test_a_row_that_lacks_the_figure_proves_nothing():
    history = [row(step, **({} if step in {11, 12} else {"kl": GOOD})) for step in range(1, 14)]
    assert phase(10, history) is CheckpointPhase.COMPLETE
    assert phase(10, [*history, row(14, kl=GOOD), row(15, kl=GOOD)]) is CheckpointPhase.CONFIRMED


def test_without_rollback_guardrails_finite_rows_confirm():
    assert phase(10, rows([BAD] * 13), guards=()) is CheckpointPhase.CONFIRMED


def test_the_end_of_training_waives_the_rest():
    history = rows([GOOD] * 11)
    assert phase(10, history, finished=True) is CheckpointPhase.CONFIRMED
    assert phase(10, rows([GOOD] * 10 + [BAD]), finished=True) is CheckpointPhase.SUSPECT


def test_a_validation_guardrail_needs_a_validation_behind_it():
    guards = (guard(conditions=[{"metric": "validationReward", "below": 0.5}], forSteps=1),)
    history = rows([GOOD] * 13)
    good, bad = (row(13, RowKind.VALIDATION, validationReward=value) for value in (0.9, 0.1))
    assert phase(10, history, guards=guards) is CheckpointPhase.COMPLETE
    assert phase(10, [*history, good], guards=guards) is CheckpointPhase.CONFIRMED
    assert phase(10, [*history, bad], guards=guards) is CheckpointPhase.SUSPECT


def test_saving_unusable_abandoned_and_known_ones():
    history = evidence(rows([GOOD] * 20), lineage=(Segment(1, 0, 10), Segment(2, 10, math.inf)))
    known = frozenset({CheckpointRef(attempt=1, step=5), CheckpointRef(attempt=1, step=15)})
    assert judge_checkpoint(state(20, saving=True, problem="no manifest"), history, known).phase is (
        CheckpointPhase.SAVING
    )
    damaged = judge_checkpoint(state(5, problem="data.pt is missing"), history, known)
    assert (damaged.phase, damaged.message) == (CheckpointPhase.UNUSABLE, "data.pt is missing")
    assert judge_checkpoint(state(15), history, known).phase is CheckpointPhase.ABANDONED
    assert judge_checkpoint(state(5), history, known).phase is CheckpointPhase.CONFIRMED


def breach(first_step: int, step: int) -> Breach:
    return Breach(guardrail=guard(), first_step=first_step, reading=Reading(step, (), (), ()))


@pytest.mark.parametrize(("step", "suspect"), [(13, False), (14, True), (15, True), (16, True)])
def test_what_led_to_a_breach_is_suspect_even_where_it_was_confirmed(step, suspect):
    """Row 15 is of the weights after step 14: of checkpoint 14."""
    seen = evidence(rows([GOOD] * 20), breach=breach(15, 17))
    judged = judge_checkpoint(state(step), seen, frozenset({CheckpointRef(attempt=1, step=step)}))
    said = (CheckpointPhase.SUSPECT, "the run was bad from step 15 on") if suspect else (CheckpointPhase.CONFIRMED, "")
    assert (judged.phase, judged.message) == said


def test_a_breach_says_nothing_of_an_earlier_attempts_checkpoints():
    lineage = (Segment(1, 0, 16), Segment(2, 16, math.inf))
    seen = dataclasses.replace(evidence(rows([GOOD] * 20), lineage=lineage, breach=breach(15, 17)), attempt=2)
    of_before = judge_checkpoint(state(15, attempt=1), seen, frozenset({CheckpointRef(attempt=1, step=15)}))
    assert of_before.phase is CheckpointPhase.CONFIRMED
    own = judge_checkpoint(state(17, attempt=2), seen, frozenset())
    assert own.phase is CheckpointPhase.SUSPECT


def test_rows_behind_a_breach_prove_nothing():
    history = rows([GOOD] * 20)
    assert phase(10, history, breach=breach(12, 13)) is CheckpointPhase.CONFIRMED
    assert phase(10, history, breach=breach(12, 12)) is CheckpointPhase.COMPLETE


def test_what_is_thought_of_it_is_told_with_its_size():
    history = evidence(rows([GOOD] * 20), lineage=(Segment(1, 0, 10), Segment(2, 10, math.inf)))
    abandoned = judge_checkpoint(state(15), history, frozenset())
    assert (abandoned.size_bytes, abandoned.message) == (10, "the run went back to an earlier step")
    assert judge_checkpoint(state(20, saving=True, problem="no manifest"), history, frozenset()).message == ""


def test_the_window_covers_the_slowest_rollback_guardrail():
    slow = raw_guardrail(name="slow", forSteps=20)
    assert window(spec(guardrails=[slow])) == 20
    assert window(spec(guardrails=[slow | {"action": "Warn"}])) == 3
    assert window(spec(guardrails=[slow | {"dryRun": True}])) == 3
    assert window(spec()) == 3


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ([], (CheckpointPhase.COMPLETE, "no validation behind it yet")),
        ([(9, False)], (CheckpointPhase.COMPLETE, "no validation behind it yet")),
        ([(10, True)], (CheckpointPhase.CONFIRMED, "")),
        ([(13, True), (14, False)], (CheckpointPhase.CONFIRMED, "")),
        ([(13, False)], (CheckpointPhase.SUSPECT, "the validation at step 13 was not clean")),
        ([(14, True)], (CheckpointPhase.COMPLETE, "no validation behind it yet")),
    ],
)
def test_the_first_validation_behind_it_counts_up_to_the_breach(seen, expected):
    clean = CleanRows(3)
    clean.validations = {"validated": seen}
    for step in range(1, 20):
        clean.add(step, Cleanness.CLEAN)
    assert clean.trust(10, through=13) == expected


def test_a_row_without_a_gradient_is_clean():
    assert cleanness(StepRow(kind=RowKind.STEP, step=1, time=1.0, values={}), []) is Cleanness.CLEAN
