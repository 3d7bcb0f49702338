"""What the stages after training will need of the claim and of others, as the trainer is told it before training."""

from ppojob_contract.stages import Stage
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.pipeline.after import told_folder, told_judge, told_prompts, told_target
from ppojob_operator.domain.pipeline.settings import Settings, resolved


def afterwards(job: AcceptedJob) -> Settings:
    """By stage. What only training makes, such as the checkpoint that is judged, is not in it."""
    spec, told = resolved(job), Settings()
    if spec.evaluation is not None:
        baseline = spec.evaluation.baseline.path
        told[Stage.EVALUATE.value] = {
            "prompts": told_prompts(spec.evaluation, spec),
            "judge": told_judge(spec.evaluation.judge, spec),
            "baseline": told_folder(baseline) if baseline else None,
        }
    if spec.export is not None:
        told[Stage.EXPORT.value] = {"target": told_target(spec.export)}
    return told
