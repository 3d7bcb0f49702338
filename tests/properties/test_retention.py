"""Retention over arbitrary histories: nothing that could be needed goes, and what stays is bounded."""

from hypothesis import given
from hypothesis import strategies as st

from ppojob_contract.mailbox import CheckpointRef
from ppojob_operator.api.v1alpha1.status import CheckpointPhase, CheckpointStatus
from ppojob_operator.domain.checkpoints import JudgedCheckpoint
from ppojob_operator.domain.retention import TIGHT, Limits, dispensable, never_deleted

refs = st.builds(CheckpointRef, attempt=st.integers(1, 4), step=st.integers(1, 40))
histories = st.lists(
    st.builds(JudgedCheckpoint, ref=refs, phase=st.sampled_from(CheckpointPhase), size_bytes=st.integers(0, 100)),
    max_size=40,
    unique_by=lambda item: item.ref,
)
wishes = st.builds(Limits, confirmed=st.integers(2, 6), unproven=st.integers(1, 8), failed=st.integers(0, 6)) | st.just(
    TIGHT
)


def age(item: JudgedCheckpoint) -> tuple[int, int]:
    return item.ref.step, item.ref.attempt


def of(history: list[JudgedCheckpoint], *phases: CheckpointPhase) -> list[JudgedCheckpoint]:
    return sorted((item for item in history if item.phase in phases), key=age)


@given(histories, st.frozensets(refs, max_size=4), wishes)
def test_what_could_be_needed_never_goes(history, needed, wanted):
    gone = set(dispensable(history, needed, wanted))
    confirmed = of(history, CheckpointPhase.CONFIRMED)
    whole = of(history, CheckpointPhase.CONFIRMED, CheckpointPhase.COMPLETE)
    for item in (*confirmed[-2:], *whole[-1:], *of(history, CheckpointPhase.SAVING)):
        assert item.ref not in gone
    assert not gone & needed
    assert gone <= {item.ref for item in history}


@given(histories, st.frozensets(refs, max_size=4), wishes)
def test_what_stays_is_bounded(history, needed, wanted):
    gone = set(dispensable(history, needed, wanted))
    stays = [item for item in history if item.ref not in gone | needed and item.phase is not CheckpointPhase.SAVING]
    assert len(stays) <= wanted.confirmed + 1 + wanted.unproven + wanted.failed


@given(histories, st.frozensets(refs, max_size=4), wishes)
def test_deleting_what_may_go_leaves_nothing_more_that_may(history, needed, wanted):
    gone = set(dispensable(history, needed, wanted))
    left = [item for item in history if item.ref not in gone]
    assert dispensable(left, needed, wanted) == ()


@given(histories, st.frozensets(refs, max_size=4), wishes)
def test_what_is_missed_when_it_is_gone_was_not_deleted(history, needed, wanted):
    """Else the operator would report its own deletions as somebody else's."""
    gone = set(dispensable(history, needed, wanted))
    items = [CheckpointStatus(attempt=item.ref.attempt, step=item.ref.step, phase=item.phase) for item in history]
    assert not gone & {CheckpointRef(attempt=item.attempt, step=item.step) for item in never_deleted(items)}
