"""What the model card is told: facts that do not change any more once training is done."""

from ppojob_contract.stages import Stage
from ppojob_operator.api.v1alpha1.spec import PPOJobSpec
from ppojob_operator.api.v1alpha1.status import AttemptStatus
from ppojob_operator.domain import effective
from ppojob_operator.domain.guardrails.guards import guards_of
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.observation import Observation
from ppojob_operator.domain.pipeline.recorded import recorded
from ppojob_operator.domain.pipeline.settings import Settings

_FILES, _CHARACTERS = 16, 280
"""Of one list or text: the rest is in the spec and the status."""


def card(observation: Observation, job: AcceptedJob, step: int) -> Settings:
    """Single values are one table of the card, each list or mapping is a section."""
    status, spec = observation.job.status, job.spec
    evaluated = recorded(status, Stage.EVALUATE)
    return {
        "job": job.name,
        "namespace": job.namespace,
        "uid": job.uid,
        "estimator": spec.algorithm.estimator.value,
        "steps": step,
        "batchSize": spec.training.batch_size,
        "learningRate": spec.training.learning_rate,
        "klCoefficient": spec.algorithm.kl.coefficient,
        "klPlacement": effective.kl_placement(spec).value,
        "maxPromptLength": spec.data.max_prompt_length,
        "maxResponseLength": spec.data.max_response_length,
        "datasetDigest": status.attempt.dataset_digest if status.attempt else None,
        "rollbacks": status.rollbacks,
        "restarts": status.restarts,
        "rewards": [term.name for term in spec.reward.terms],
        "data": _data(spec),
        "guardrails": [_guardrail(guard.name, guard.action.value, dry=guard.dry_run) for guard in guards_of(spec)],
        "attempts": [_attempt(item) for item in status.attempts],
        "adjustments": {item.parameter.value: item.value for item in status.adjustments},
        "metrics": status.metrics.model_dump(mode="json", by_alias=True, exclude_none=True) if status.metrics else {},
        "evaluation": dict(evaluated.figures) if evaluated else {},
    }


def _data(spec: PPOJobSpec) -> list[Settings]:
    if spec.data.prepare is not None:
        return [
            {"source": item.name, "recipe": item.recipe.value, "files": _files(item.files), "revision": item.revision}
            for item in spec.data.prepare.sources
        ]
    given = {"train": spec.data.train, "validation": spec.data.validation}
    return [{"source": name, "files": _files(files)} for name, files in given.items()]


def _files(paths: list[str]) -> str:
    more = f" and {len(paths) - _FILES} more" if len(paths) > _FILES else ""
    return ", ".join(paths[:_FILES]) + more


def _guardrail(name: str, action: str, *, dry: bool) -> str:
    return f"{name}: {action}{', dry run' if dry else ''}"


def _attempt(entry: AttemptStatus) -> Settings:
    """Where it began, how far it came, why it ended."""
    resume = entry.resume
    return {
        "number": entry.number,
        "began": f"attempt {resume.attempt}, step {resume.step}" if resume else "the beginning",
        "lastStep": entry.last_step,
        "ended": entry.result,
        "why": entry.message[:_CHARACTERS],
    }
