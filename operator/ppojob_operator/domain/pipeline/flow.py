"""Which stage comes next. Trial -> prepare -> reward -> training -> evaluate -> export."""

from ppojob_contract.stages import Stage
from ppojob_operator.domain.decisions import Decision
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.observation import Observation
from ppojob_operator.domain.pipeline.after import evaluate_settings, export_settings
from ppojob_operator.domain.pipeline.gates import gate
from ppojob_operator.domain.pipeline.run import advance
from ppojob_operator.domain.pipeline.settings import Settings, Work, prepare_settings, reward_settings
from ppojob_operator.domain.provision import provision
from ppojob_operator.domain.rollback import fail


def before_training(observation: Observation, accepted: AcceptedJob) -> Decision | None:
    """The next act of the stages that training needs, on a cluster that is there; None once all are done."""
    for stage, settings in ((Stage.PREPARE, prepare_settings(accepted)), (Stage.REWARD, reward_settings(accepted))):
        if settings is not None:
            decision = _stage(observation, accepted, stage, settings)
            if decision is not None:
                return decision
    return None


def after_training(observation: Observation, accepted: AcceptedJob, judgement: Judgement) -> Decision | None:
    """The next act of the stages that need a trained model; None once all are done."""
    spec = accepted.spec
    if spec.evaluation is None and spec.export is None:
        return None
    way = provision(observation, accepted)
    if way is not None:
        return way
    if spec.evaluation is not None:
        settings = evaluate_settings(observation, accepted, judgement, spec.evaluation)
        decision = _stage(observation, accepted, Stage.EVALUATE, settings)
        if decision is not None:
            return decision
    if spec.export is not None:
        return _stage(observation, accepted, Stage.EXPORT, export_settings(observation, accepted, judgement))
    return None


def _stage(observation: Observation, accepted: AcceptedJob, stage: Stage, settings: Settings | str) -> Decision | None:
    if isinstance(settings, str):
        return fail(observation, f"{stage.value}Impossible", settings)
    return advance(observation, accepted, Work(stage, settings)) or gate(observation, accepted, stage)
