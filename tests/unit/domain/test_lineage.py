import math

from tests.support.builders import NOW, row

from ppojob_operator.api.v1alpha1.status import AttemptStatus, PPOJobStatus, ResumePoint
from ppojob_operator.domain.lineage import Segment, along, contains, lineage


def attempt(number: int, resume: tuple[int, int] | None = None) -> AttemptStatus:
    point = ResumePoint(attempt=resume[0], step=resume[1]) if resume else None
    return AttemptStatus(number=number, cluster=1, created=NOW, resume=point)


def status(*attempts: AttemptStatus) -> PPOJobStatus:
    return PPOJobStatus(attempts=list(attempts[:-1]), attempt=attempts[-1])


def test_no_attempt_no_lineage():
    assert lineage(PPOJobStatus()) == ()


def test_each_resume_cuts_the_attempt_before():
    found = lineage(status(attempt(1), attempt(2, (1, 10)), attempt(3, (2, 20))))
    assert found == (Segment(1, 0, 10), Segment(2, 10, 20), Segment(3, 20, math.inf))


def test_an_attempt_can_go_back_behind_the_one_before_it():
    found = lineage(status(attempt(1), attempt(2, (1, 10)), attempt(3, (1, 5))))
    assert found == (Segment(1, 0, 5), Segment(3, 5, math.inf))
    assert contains(found, 1, 5)
    assert not contains(found, 1, 6)
    assert not contains(found, 3, 5), "an attempt writes what comes behind its resume point"
    assert not contains(found, 2, 11)


def test_a_parent_that_the_history_has_dropped_still_counts():
    assert lineage(status(attempt(30, (29, 100)))) == (Segment(29, 0, 100), Segment(30, 100, math.inf))


def test_a_status_that_points_at_itself_does_not_loop():
    assert len(lineage(status(attempt(2, (2, 10))))) == 1


def test_rows_follow_the_lineage():
    segments = lineage(status(attempt(1), attempt(2, (1, 3))))
    rows = {1: [row(step) for step in range(1, 8)], 2: [row(step) for step in range(4, 6)]}
    assert [(number, item.step) for number, item in along(segments, rows)] == [(1, 1), (1, 2), (1, 3), (2, 4), (2, 5)]


def test_rows_that_were_not_read_are_none_and_a_checkpoints_own_step_belongs_to_who_wrote_it():
    segments = lineage(status(attempt(1), attempt(2, (1, 3))))
    assert [(number, item.step) for number, item in along(segments, {2: [row(3), row(4)]})] == [(2, 4)]
