"""What reward terms said when they failed, in status and events."""

from tests.support.builders import NOW
from tests.support.observations import attempt, observation

from ppojob_contract.journal import REWARD_FAILED, RowKind
from ppojob_contract.protocol import StepRow
from ppojob_operator.api.v1alpha1.status import PPOJobStatus, RewardFailure
from ppojob_operator.domain.observation import MonitorView, Reach
from ppojob_operator.domain.plan import plan
from ppojob_operator.domain.reward_failures import reward_failures

OWN = RewardFailure(term="own", attempt=1, step=3, message="KeyError: 'x' (reward.py, line 4, in f)")


def event(step: int, message: str, name: str = REWARD_FAILED) -> StepRow:
    return StepRow(kind=RowKind.EVENT, step=step, time=float(step), values={}, event=name, message=message)


ROWS = (
    event(0, "from the initial weights", "AttemptStarted"),
    event(3, "own: KeyError: 'x' (reward.py, line 4, in f)"),
    event(5, "liked: OSError: gone"),
    event(6, "own: ValueError: later"),
)


def test_the_first_failure_of_each_term_stays() -> None:
    liked = RewardFailure(term="liked", attempt=1, step=5, message="OSError: gone")
    assert reward_failures(1, ROWS, []) == [OWN, liked]
    assert reward_failures(1, None, [OWN]) == [OWN], "a journal that cannot be read takes nothing back"
    assert reward_failures(2, None, [OWN]) == [], "another attempt has not failed yet"
    assert reward_failures(2, (), [OWN]) == []
    many = tuple(event(1, f"t{number}: {'long ' * 500}") for number in range(20))
    bounded = reward_failures(1, many, [])
    assert len(bounded) == 16
    assert max(len(item.message) for item in bounded) == 1024


def told(status: PPOJobStatus, rows: tuple[StepRow, ...]) -> tuple[PPOJobStatus, list[tuple[str, str, str]]]:
    planned = plan(observation(status, monitor=MonitorView(reach=Reach.OK, rows={1: rows})))
    found = [(item.type, item.reason, item.message) for item in planned.events if item.reason == "RewardFailed"]
    return planned.status, found


def test_each_is_told_once() -> None:
    begun = PPOJobStatus(attempt=attempt(first_step=NOW), cluster_number=1)
    status, found = told(begun, ROWS[:2])
    assert status.reward_failures == [OWN]
    message = "term own failed at step 3 of attempt 1: KeyError: 'x' (reward.py, line 4, in f)"
    assert found == [("Warning", "RewardFailed", message)]
    status, found = told(status, ROWS)
    assert [item.term for item in status.reward_failures] == ["own", "liked"]
    assert [message for *_, message in found] == ["term liked failed at step 5 of attempt 1: OSError: gone"]
    assert told(status, ROWS)[1] == []
