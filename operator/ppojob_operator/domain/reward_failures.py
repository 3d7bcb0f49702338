"""What reward terms said when they failed, as the journal tells it."""

from collections.abc import Sequence

from ppojob_contract.journal import REWARD_FAILED
from ppojob_contract.protocol import StepRow
from ppojob_operator.api.v1alpha1.status import RewardFailure

MAX_CHARACTERS = 1024


def reward_failures(
    attempt: int, rows: Sequence[StepRow] | None, known: Sequence[RewardFailure]
) -> list[RewardFailure]:
    """The first of each term in this attempt; as they were where the journal cannot be read."""
    if rows is None:
        return [item for item in known if item.attempt == attempt]
    found: dict[str, RewardFailure] = {}
    for row in rows:
        if row.event == REWARD_FAILED:
            term, _, message = row.message.partition(": ")
            failure = RewardFailure(term=term, attempt=attempt, step=row.step, message=message[:MAX_CHARACTERS])
            found.setdefault(term, failure)
    return list(found.values())[:16]
