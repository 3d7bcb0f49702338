"""Which stage comes next. Trial -> prepare -> reward -> training -> evaluate -> export."""

from ppojob_operator.domain.decisions import Decision
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.observation import Observation
from ppojob_operator.domain.pipeline.after import evaluate_work, export_work
from ppojob_operator.domain.pipeline.gates import gate
from ppojob_operator.domain.pipeline.run import advance
from ppojob_operator.domain.pipeline.settings import Work, prepare_work, reward_work
from ppojob_operator.domain.provision import provision
from ppojob_operator.domain.rollback import fail


def before_training(observation: Observation, accepted: AcceptedJob) -> Decision | None:
    """The next act of the stages that training needs, on a cluster that is there; None once all are done."""
    for work in (prepare_work(accepted), reward_work(accepted)):
        decision = _stage(observation, accepted, work) if work is not None else None
        if decision is not None:
            return decision
    return None


def after_training(observation: Observation, accepted: AcceptedJob, judgement: Judgement) -> Decision | None:
    """The next act of the stages that need a trained model; None once all are done."""
    spec = accepted.spec
    if spec.evaluation is None and spec.export is None:
        return None
    decision = provision(observation, accepted)
    if decision is None and spec.evaluation is not None:
        evaluation = evaluate_work(observation, accepted, judgement, spec.evaluation)
        decision = _stage(observation, accepted, evaluation)
    if decision is None and spec.export is not None:
        decision = _stage(observation, accepted, export_work(observation, accepted, judgement))
    return decision


def _stage(observation: Observation, accepted: AcceptedJob, work: Work | str) -> Decision | None:
    if isinstance(work, str):
        return fail(observation, "NothingToWorkWith", work)
    return advance(observation, accepted, work) or gate(observation, accepted, work.stage)
