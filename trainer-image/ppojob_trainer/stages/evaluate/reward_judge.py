"""The judge that is a reward model, on one of the job's devices; `work` is run by `gang`."""

from typing import Any

from ppojob_trainer.stages.scoring import Scorer, device_of_this_process

_BATCH = 8


def work(task: dict[str, Any]) -> list[float]:
    """Rewards of the conversations, in their order."""
    scorer = Scorer.load(
        task["model"],
        trust_remote_code=task["trustRemoteCode"],
        device=device_of_this_process(),
        max_length=task["maxLength"],
    )
    rewards: list[float] = scorer.score(scorer.encode(task["conversations"]), _BATCH)
    return rewards
