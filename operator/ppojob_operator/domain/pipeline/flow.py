"""Which stage comes next. Trial -> prepare -> reward -> training -> evaluate -> export."""

from ppojob_contract.stages import Stage
from ppojob_operator.api.v1alpha1.stage_status import StagePhase
from ppojob_operator.api.v1alpha1.status import PPOJobStatus
from ppojob_operator.domain.decisions import Decision
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.observation import Observation
from ppojob_operator.domain.pipeline.after import evaluate_work, export_work
from ppojob_operator.domain.pipeline.gates import gate
from ppojob_operator.domain.pipeline.recorded import recorded
from ppojob_operator.domain.pipeline.run import advance, leftover, superseded
from ppojob_operator.domain.pipeline.settings import Work, prepare_work, reward_work
from ppojob_operator.domain.provision import provision
from ppojob_operator.domain.rollback import fail


def before_training(observation: Observation, accepted: AcceptedJob) -> Decision | None:
    """The next act of the stages that training needs, on a cluster that is there; None once all are done."""
    works = [work for work in (prepare_work(accepted), reward_work(accepted)) if work is not None]
    decision = superseded(observation, works) or leftover(observation)
    for work in works:
        decision = decision or _stage(observation, accepted, work)
    return decision


def after_training(observation: Observation, accepted: AcceptedJob, judgement: Judgement) -> Decision | None:
    """The next act of the stages that need a trained model; None once all are done."""
    spec, status = accepted.spec, observation.job.status
    if all_done(status, accepted):
        return gate(observation, accepted, Stage.EVALUATE)
    decision = provision(observation, accepted)
    if decision is not None:
        return decision
    works: list[Work | str] = []
    if spec.evaluation is not None and not _done(status, Stage.EVALUATE):
        works.append(evaluate_work(observation, accepted, judgement, spec.evaluation))
    if spec.export is not None:
        works.append(export_work(observation, accepted, judgement))
    wanted = [work for work in works if isinstance(work, Work)]
    decision = superseded(observation, wanted) or leftover(observation)
    if decision is None and _done(status, Stage.EVALUATE):
        decision = gate(observation, accepted, Stage.EVALUATE)
    for work in works:
        decision = decision or _stage(observation, accepted, work)
    return decision


def all_done(status: PPOJobStatus, accepted: AcceptedJob) -> bool:
    """Whether every stage after training that the spec asks for has made its output. It is not made again then."""
    wanted = {Stage.EVALUATE: accepted.spec.evaluation, Stage.EXPORT: accepted.spec.export}
    return all(_done(status, stage) for stage, asked in wanted.items() if asked is not None)


def _done(status: PPOJobStatus, stage: Stage) -> bool:
    entry = recorded(status, stage)
    return entry is not None and entry.phase is StagePhase.SUCCEEDED


def _stage(observation: Observation, accepted: AcceptedJob, work: Work | str) -> Decision | None:
    if isinstance(work, str):
        return fail(observation, "NothingToWorkWith", work)
    return advance(observation, accepted, work) or gate(observation, accepted, work.stage)
