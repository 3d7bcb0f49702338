"""Scripts of training runs: figures by attempt, step and settings."""

from collections.abc import Mapping

from tests.support.world import Script

from ppojob_contract.outcomes import ExitClass

GOOD, BAD = 0.05, 0.9


def healthy(_attempt: int, _step: int, _settings: Mapping[str, float]) -> dict[str, float]:
    return {"kl": GOOD, "rewardMean": 0.5}


def runs_away(at: int, *, until_below: float = 1e-3) -> Script:
    """KL is bad from step `at` on, unless a rollback has lowered the learning rate."""

    def script(_attempt: int, step: int, settings: Mapping[str, float]) -> dict[str, float]:
        calm = settings.get("LearningRate", 1.0) < until_below
        return {"kl": BAD if step >= at and not calm else GOOD}

    return script


def fails(attempts: set[int], at: int, how: ExitClass) -> Script:
    """These attempts end as `how` at step `at`."""

    def script(attempt: int, step: int, _settings: Mapping[str, float]) -> dict[str, float]:
        if attempt in attempts and step >= at:
            return {"raise": float(list(ExitClass).index(how))}
        return {"kl": GOOD}

    return script
