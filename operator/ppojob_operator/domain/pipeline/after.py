"""What the stages after training are told: they need the checkpoint that training ended with."""

from pathlib import Path

from ppojob_contract.layout import JobLayout
from ppojob_contract.names import ENV_JUDGE_KEY, STORAGE_MOUNT
from ppojob_contract.stages import Stage
from ppojob_operator.api.v1alpha1.checkpoints import ResumeFrom
from ppojob_operator.api.v1alpha1.evaluation import Evaluation, Export, Judge
from ppojob_operator.api.v1alpha1.spec import PPOJobSpec
from ppojob_operator.api.v1alpha1.status import ResumePoint
from ppojob_operator.domain import effective
from ppojob_operator.domain.hashes import hash_of
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.observation import Observation
from ppojob_operator.domain.pipeline.card import card
from ppojob_operator.domain.pipeline.settings import Settings, Work, resolved
from ppojob_operator.domain.reward_terms import told_term
from ppojob_operator.domain.source import USABLE, of_job, whole_of_step
from ppojob_operator.domain.targets import checkpoints, restart_point

_TYPES = {"BFloat16": "bfloat16", "Float32": "float32"}


def evaluate_work(
    observation: Observation, job: AcceptedJob, judgement: Judgement, evaluation: Evaluation
) -> Work | str:
    """Or why they cannot be known."""
    candidate = _result(observation, job, judgement)
    baseline = _baseline(observation, job, judgement, evaluation)
    if candidate is None:
        return "no checkpoint of the trained model is left on the claim"
    if isinstance(baseline, str):
        return baseline
    spec = resolved(job)
    settings = {
        "candidate": {"checkpoint": candidate},
        "baseline": baseline,
        "model": spec.model.actor.path,
        "trustRemoteCode": spec.model.trust_remote_code,
        "prompts": told_prompts(evaluation, spec),
        "maxPrompts": evaluation.max_prompts,
        "maxPromptLength": spec.data.max_prompt_length,
        "maxResponseLength": spec.data.max_response_length,
        "temperature": evaluation.temperature,
        "seed": spec.data.seed,
        "engine": effective.engine(spec).value,
        "tensorParallelSize": spec.rollout.tensor_parallel_size,
        "memoryFraction": spec.rollout.memory_fraction,
        "judge": told_judge(evaluation.judge, spec),
        "tieMargin": evaluation.tie_margin,
        "examples": evaluation.examples,
    }
    basis = {
        "evaluation": evaluation.model_copy(update={"gate": None}),
        "candidate": candidate,
        # Another job's newest checkpoint may be a later one at the next look; what was asked for is the same.
        "baseline": None if evaluation.baseline.job else baseline,
        "data": spec.data,
        "terms": [term for term in spec.reward.terms if term.name == evaluation.judge.term],
    }
    return Work(Stage.EVALUATE, settings, hash_of(basis))


def export_work(observation: Observation, job: AcceptedJob, judgement: Judgement) -> Work | str:
    """Or why they cannot be known."""
    wanted, point = job.spec.export, restart_point(observation.job.status, judgement)
    assert wanted is not None, "asked for where an export is wanted only"
    if point is None:
        return "no checkpoint of the trained model is left on the claim"
    checkpoint = _folder(job, point)
    spec = job.spec
    settings = {
        "checkpoint": checkpoint,
        "model": spec.model.actor.path,
        "trustRemoteCode": spec.model.trust_remote_code,
        "format": wanted.format.value,
        "dtype": _TYPES[wanted.data_type.value] if wanted.data_type else None,
        "target": told_target(wanted),
        "card": card(observation, job, point.step),
    }
    return Work(Stage.EXPORT, settings, hash_of({"export": wanted, "checkpoint": checkpoint}))


def _result(observation: Observation, job: AcceptedJob, judgement: Judgement) -> str | None:
    point = restart_point(observation.job.status, judgement)
    return _folder(job, point) if point else None


def _folder(job: AcceptedJob, point: ResumePoint) -> str:
    return str(JobLayout(Path(job.root)).attempt(point.attempt).checkpoint(point.step))


def _baseline(
    observation: Observation, job: AcceptedJob, judgement: Judgement, evaluation: Evaluation
) -> Settings | str:
    wanted, field = evaluation.baseline, "spec.evaluation.baseline"
    if wanted.path is not None:
        return told_folder(wanted.path)
    if wanted.job is not None:
        found = of_job(ResumeFrom(job=wanted.job), observation.baseline_job, job, field)
        return found if isinstance(found, str) else {"checkpoint": found.path}
    if wanted.step is None:
        return {"model": job.spec.model.actor.path}
    known = checkpoints(observation.job.status, judgement)
    point = whole_of_step(known, wanted.step)
    if point is None:
        there = ", ".join(str(item.step) for item in known if item.phase in USABLE) or "none"
        return f"{field}.step: there is no checkpoint of step {wanted.step} (there are: {there}); see spec.checkpoints"
    return {"checkpoint": _folder(job, point)}


def told_prompts(evaluation: Evaluation, spec: PPOJobSpec) -> list[Settings]:
    """`spec` is resolved: prepared files have paths in it."""
    of_training = {"name": "validation", "files": spec.data.validation, "format": "Parquet"}
    given = [item.model_dump(mode="json", by_alias=True) for item in evaluation.prompts]
    return given or [of_training | {"promptColumn": "prompt", "categoryColumn": None}]


def told_folder(path: str) -> Settings:
    """A baseline by its folder: verl's checkpoints are known by their names."""
    return {"checkpoint" if Path(path).name.startswith("global_step_") else "model": path}


def told_target(export: Export) -> str | None:
    """Where the model is put, in the trainer's pods."""
    return f"{STORAGE_MOUNT}/{export.path}" if export.path else None


def told_judge(judge: Judge, spec: PPOJobSpec) -> Settings:
    """`spec` is resolved: a trained model has a path in it."""
    if judge.endpoint is not None:
        endpoint = judge.endpoint.model_dump(mode="json", by_alias=True, exclude={"api_key_secret"})
        return {"endpoint": endpoint | {"apiKeyEnv": ENV_JUDGE_KEY if judge.endpoint.api_key_secret else None}}
    if judge.reward_model is not None:
        return {"rewardModel": {"path": judge.reward_model.path, "maxLength": judge.reward_model.max_length}}
    (term,) = [item for item in spec.reward.terms if item.name == judge.term]
    if term.model is not None:
        return {"rewardModel": {"path": term.model.path, "maxLength": term.model.max_length}}
    return {"terms": [told_term(term, spec)]}
