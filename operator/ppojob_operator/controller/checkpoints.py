"""What the claim is told behind a recorded pass: which checkpoints are Confirmed, and which may go.

Best effort, and done again until the claim is as it should be: the status knows it all already.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ppojob_contract.mailbox import CheckpointRef
from ppojob_contract.protocol import Deletion
from ppojob_operator.api.v1alpha1.resource import PPOJob
from ppojob_operator.controller.act import Actor
from ppojob_operator.errors import MonitorRefused, MonitorUnavailable
from ppojob_operator.ports import Key

logger = logging.getLogger(__name__)

ASK_AGAIN = timedelta(minutes=1)
"""After which a deletion that was refused is asked for again."""


@dataclass(slots=True)
class AskedDeletion:
    """What the monitor was last asked to delete."""

    checkpoints: tuple[CheckpointRef, ...] = ()
    at: datetime | None = None

    def lately(self, checkpoints: tuple[CheckpointRef, ...], now: datetime) -> bool:
        return self.at is not None and self.checkpoints == checkpoints and now - self.at < ASK_AGAIN


async def confirm(actor: Actor, job: PPOJob, checkpoints: Sequence[CheckpointRef] | None) -> bool:
    """Writes down what is Confirmed (None: the claim is right already); whether the claim knows."""
    if checkpoints is None:
        return True
    endpoint = await actor.observer.endpoint(job)
    if endpoint is None:
        return False
    try:
        await actor.monitor.put_confirmed(endpoint, checkpoints)
    except (MonitorUnavailable, MonitorRefused) as error:
        logger.warning("confirmed checkpoints not written down: %s", error, extra=Key.of(job).log_fields)
        return False
    return True


async def delete(actor: Actor, job: PPOJob, checkpoints: tuple[CheckpointRef, ...], asked: AskedDeletion) -> Deletion:
    """Deletes what nobody needs; what came of it."""
    nothing, now = Deletion(deleted=()), actor.observer.clock()
    if not checkpoints or asked.lately(checkpoints, now):
        return nothing
    endpoint = await actor.observer.endpoint(job)
    if endpoint is None:
        return nothing
    asked.checkpoints, asked.at = checkpoints, now
    try:
        answer = await actor.monitor.delete_checkpoints(endpoint, checkpoints)
    except (MonitorUnavailable, MonitorRefused) as error:
        logger.warning("checkpoints not deleted: %s", error, extra=Key.of(job).log_fields)
        return nothing
    for item in answer.refused:
        logger.info(
            "checkpoint %d/%d stays: %s", item.ref.attempt, item.ref.step, item.reason, extra=Key.of(job).log_fields
        )
    return answer
