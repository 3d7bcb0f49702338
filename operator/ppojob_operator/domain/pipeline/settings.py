"""What each stage before training is told, and the spec as training sees it: with their outputs in it.

Only what the output follows from is in the settings, since their hash says whether it is there already.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ppojob_contract.stages import Stage, StageLayout, stage_key
from ppojob_operator.api.v1alpha1.preparation import PrepareSource, Recipe, Use
from ppojob_operator.api.v1alpha1.reward import RewardModel, RewardTerm
from ppojob_operator.api.v1alpha1.spec import PPOJobSpec
from ppojob_operator.domain.functions import prepare_folder
from ppojob_operator.domain.job import AcceptedJob

Settings = dict[str, Any]

_USES = {
    Recipe.GSM8K: Use.PROMPTS,
    Recipe.HH_RLHF: Use.BOTH,
    Recipe.PROMPTS: Use.PROMPTS,
    Recipe.PAIRS: Use.PAIRS,
    Recipe.FUNCTION: Use.PROMPTS,
}


@dataclass(frozen=True, slots=True)
class Work:
    """A stage and what it is told."""

    stage: Stage
    settings: Settings

    @property
    def key(self) -> str:
        return stage_key(self.settings)

    def output(self, job: AcceptedJob) -> str:
        """Folder of what it makes, in the trainer's pods."""
        return str(StageLayout.of(Path(job.root), self.stage, self.key).output)


def use_of(source: PrepareSource) -> Use:
    """What its rows are for."""
    return source.use or _USES[source.recipe]


def trained_term(spec: PPOJobSpec) -> RewardTerm | None:
    """The term whose model is trained here."""
    return next((term for term in spec.reward.terms if term.training is not None), None)


def prepare_settings(job: AcceptedJob) -> Settings | None:
    """None where the spec names files that are there already."""
    spec, prepare = job.spec, job.spec.data.prepare
    if prepare is None:
        return None
    return {
        "sources": [_source(item) for item in prepare.sources],
        "validationFraction": prepare.validation_fraction,
        "validationMaxRows": prepare.validation_max_rows,
        "seed": spec.data.seed,
        "maxPromptLength": spec.data.max_prompt_length,
        "tokenizer": spec.model.actor.path,
        "trustRemoteCode": spec.model.trust_remote_code,
        "maxBadRows": prepare.max_bad_rows,
        "revision": prepare.revision,
    }


def _source(source: PrepareSource) -> Settings:
    told = source.model_dump(mode="json", by_alias=True, exclude={"function"})
    function = source.function
    path = f"{prepare_folder(source.name)}/{function.key}" if function else None
    return told | {
        "use": use_of(source).value,
        "function": {"path": path, "name": function.name} if function else None,
    }


def reward_settings(job: AcceptedJob) -> Settings | None:
    """None where no reward model is trained."""
    spec, term = job.spec, trained_term(job.spec)
    if term is None or term.training is None:
        return None
    training = term.training
    told = training.model_dump(mode="json", by_alias=True, exclude={"minimum_accuracy"})
    return told | {
        "term": term.name,
        "trustRemoteCode": spec.model.trust_remote_code,
        "seed": spec.data.seed,
        "train": list(training.train) or _prepared(job, "pairs-train.parquet"),
        "validation": list(training.validation) or _prepared(job, "pairs-validation.parquet"),
    }


def _prepared(job: AcceptedJob, file: str) -> list[str]:
    settings = prepare_settings(job)
    return [] if settings is None else [f"{Work(Stage.PREPARE, settings).output(job)}/{file}"]


def resolved(job: AcceptedJob) -> PPOJobSpec:
    """The spec as if somebody had made its stages' outputs by hand and named them."""
    spec, prepared = job.spec, prepare_settings(job)
    if prepared is not None:
        files = {
            "train": _prepared(job, "train.parquet"),
            "validation": _prepared(job, "validation.parquet"),
            "prepare": None,
        }
        spec = spec.model_copy(update={"data": spec.data.model_copy(update=files)})
    trained = reward_settings(job)
    if trained is not None:
        model = RewardModel(path=f"{Work(Stage.REWARD, trained).output(job)}/model")
        terms = [
            term.model_copy(update={"training": None, "model": model}) if term.training is not None else term
            for term in spec.reward.terms
        ]
        spec = spec.model_copy(update={"reward": spec.reward.model_copy(update={"terms": terms})})
    return spec
