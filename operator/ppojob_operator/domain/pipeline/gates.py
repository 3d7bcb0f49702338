"""What a stage's figures must reach for the job to go on."""

from ppojob_contract.stages import Stage
from ppojob_operator.api.v1alpha1.evaluation import Gate, GateBound
from ppojob_operator.domain.decisions import Decision
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.observation import Observation
from ppojob_operator.domain.pipeline.recorded import recorded
from ppojob_operator.domain.pipeline.settings import trained_term
from ppojob_operator.domain.rollback import fail

_WIN_RATES = {GateBound.ESTIMATE: "winRate", GateBound.LOWER_BOUND: "winRateLow"}


def gate(observation: Observation, accepted: AcceptedJob, stage: Stage) -> Decision | None:
    """Ends the job where a finished stage says that it is not worth going on."""
    match stage:
        case Stage.REWARD:
            return _accuracy(observation, accepted)
        case Stage.EVALUATE if accepted.spec.evaluation is not None and accepted.spec.evaluation.gate is not None:
            return _win_rate(observation, accepted.spec.evaluation.gate)
        case _:
            return None


def _accuracy(observation: Observation, accepted: AcceptedJob) -> Decision | None:
    term = trained_term(accepted.spec)
    wanted = term.training.minimum_accuracy if term is not None and term.training is not None else None
    if wanted is None or term is None:
        return None
    found = _figure(observation, Stage.REWARD, "validationAccuracy")
    field = f"spec.reward.terms[{term.name}].training.minimumAccuracy"
    if found is None:
        return fail(observation, "RewardModelNotMeasured", f"{field} is set, but there were no held-out pairs")
    if found < wanted:
        message = f"the reward model ranks {found:.6g} of the held-out pairs right; {field} is {wanted:.6g}"
        return fail(observation, "RewardModelTooWeak", message)
    return None


def _win_rate(observation: Observation, wanted: Gate) -> Decision | None:
    name = _WIN_RATES[wanted.bound]
    found = _figure(observation, Stage.EVALUATE, name)
    if found is not None and found > wanted.minimum_win_rate:
        return None
    said = "could not be measured" if found is None else f"is {found:.6g}"
    bound = f"spec.evaluation.gate.minimumWinRate {wanted.minimum_win_rate:.6g}"
    return fail(observation, "GateFailed", f"{name} of the trained model {said}; it must be above {bound}")


def _figure(observation: Observation, stage: Stage, name: str) -> float | None:
    entry = recorded(observation.job.status, stage)
    text = entry.figures.get(name) if entry else None
    return float(text) if text is not None else None
