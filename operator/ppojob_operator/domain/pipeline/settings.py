"""What each stage before training is told, and the spec as training sees it: with their outputs in it.

A stage's key is a hash of the fields that its output follows from, and not of what it is told: a newer operator, which
may tell it more, makes nothing anew.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ppojob_contract.preparation import USES, Use
from ppojob_contract.stages import Stage, StageLayout
from ppojob_operator.api.v1alpha1.preparation import PrepareSource
from ppojob_operator.api.v1alpha1.reward import RewardModel, RewardTerm
from ppojob_operator.api.v1alpha1.reward_training import RewardTraining
from ppojob_operator.api.v1alpha1.spec import PPOJobSpec
from ppojob_operator.domain.functions import prepare_folder
from ppojob_operator.domain.hashes import hash_of, lasting
from ppojob_operator.domain.job import AcceptedJob

Settings = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Work:
    """A stage and what it is told."""

    stage: Stage
    settings: Settings
    key: str

    def output(self, job: AcceptedJob) -> str:
        """Folder of what it makes, in the trainer's pods."""
        return str(StageLayout.of(Path(job.root), self.stage, self.key).output)


def use_of(source: PrepareSource) -> Use:
    """What its rows are for."""
    return source.use or USES[source.recipe]


def trained_term(spec: PPOJobSpec) -> RewardTerm | None:
    """The term whose model is trained here."""
    return next((term for term in spec.reward.terms if term.training is not None), None)


def prepare_work(job: AcceptedJob) -> Work | None:
    """None where the spec names files that are there already."""
    spec, prepare = job.spec, job.spec.data.prepare
    if prepare is None:
        return None
    settings = {
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
    basis = {
        "prepare": prepare,
        "seed": spec.data.seed,
        "maxPromptLength": spec.data.max_prompt_length,
        "tokenizer": spec.model.actor.path,
    }
    return Work(Stage.PREPARE, settings, hash_of(basis))


def _source(source: PrepareSource) -> Settings:
    told = source.model_dump(mode="json", by_alias=True, exclude={"function"})
    function = source.function
    path = f"{prepare_folder(source.name)}/{function.key}" if function else None
    return told | {
        "use": use_of(source).value,
        "function": {"path": path, "name": function.name} if function else None,
    }


def reward_work(job: AcceptedJob) -> Work | None:
    """None where no reward model is trained."""
    spec, term = job.spec, trained_term(job.spec)
    if term is None or term.training is None:
        return None
    training = term.training
    files = {
        "train": list(training.train) or _prepared(job, "pairs-train.parquet"),
        "validation": list(training.validation) or _prepared(job, "pairs-validation.parquet"),
    }
    told = training.model_dump(mode="json", by_alias=True, exclude={"scoring"})
    settings = {
        **told,
        **files,
        "term": term.name,
        "trustRemoteCode": spec.model.trust_remote_code,
        "seed": spec.data.seed,
    }
    return Work(Stage.REWARD, settings, hash_of({"training": lasting(training), "seed": spec.data.seed, **files}))


def _trained_here(training: RewardTraining, path: str) -> RewardModel:
    return RewardModel(path=path, **training.scoring.model_dump())


def _prepared(job: AcceptedJob, file: str) -> list[str]:
    work = prepare_work(job)
    return [] if work is None else [f"{work.output(job)}/{file}"]


def resolved(job: AcceptedJob) -> PPOJobSpec:
    """The spec as if somebody had made its stages' outputs by hand and named them."""
    spec = job.spec
    if spec.data.prepare is not None:
        files = {
            "train": _prepared(job, "train.parquet"),
            "validation": _prepared(job, "validation.parquet"),
            "prepare": None,
        }
        spec = spec.model_copy(update={"data": spec.data.model_copy(update=files)})
    trained = reward_work(job)
    if trained is not None:
        path = f"{trained.output(job)}/model"
        terms = [
            term.model_copy(update={"training": None, "model": _trained_here(term.training, path)})
            if term.training is not None
            else term
            for term in spec.reward.terms
        ]
        spec = spec.model_copy(update={"reward": spec.reward.model_copy(update={"terms": terms})})
    return spec
