"""What has been used up of the limits."""

from datetime import timedelta

from tests.support.builders import NOW
from tests.support.observations import observation

from ppojob_operator.api.v1alpha1.status import Intent, IntentKind, PPOJobStatus, ResumePoint
from ppojob_operator.domain.decisions import Begin
from ppojob_operator.domain.transitions import decided


def rolled_back(status: PPOJobStatus, *, breach: int, to: int) -> PPOJobStatus:
    new = Intent(
        id="rollback-1-1",
        kind=IntentKind.ROLLBACK,
        since=NOW + timedelta(seconds=1),
        reason="GuardrailBreached",
        attempt=1,
        step=breach,
        resume=ResumePoint(attempt=1, step=to),
    )
    return decided(observation(status), status, Begin(intent=new))


def test_progress_is_measured_at_the_farthest_breach():
    """Else a run that breaches at 40 and 33 in turns goes on for ever: checkpoint 35 is beyond the one each time."""
    status = rolled_back(rolled_back(PPOJobStatus(), breach=40, to=35), breach=33, to=25)
    assert (status.rollback_mark, status.rollbacks, status.rollbacks_since_progress) == (40, 2, 2)


def test_a_rollback_gives_the_restarts_a_new_chance():
    before = PPOJobStatus(restarts=2, restarts_since_progress=2, restart_mark=38)
    status = rolled_back(before, breach=40, to=30)
    assert (status.restarts, status.restarts_since_progress, status.restart_mark) == (2, 0, 30)
