"""Stages that could not be carried out: data preparation, reward training, trial, evaluation, export."""

from collections.abc import Callable, Iterator
from typing import Any

from ppojob_contract.preparation import Recipe, Use
from ppojob_operator.api.v1alpha1.evaluation import Evaluation, EvaluationPrompts, ExportFormat, PromptFormat
from ppojob_operator.api.v1alpha1.preparation import Prepare, PrepareSource
from ppojob_operator.api.v1alpha1.spec import PPOJobSpec
from ppojob_operator.domain import effective
from ppojob_operator.domain.observation import Problem
from ppojob_operator.domain.pipeline.settings import trained_term, use_of
from ppojob_operator.domain.pipeline.trial import trial_spec

Judge = Callable[[dict[str, Any]], tuple[Problem, ...]]
"""Problems of a raw spec."""

_JSON_ENDINGS = (".jsonl", ".json", ".gz")
_FILE_ENDINGS = (*_JSON_ENDINGS, ".parquet")
_FITTING = {
    Recipe.GSM8K: {Use.PROMPTS},
    Recipe.PROMPTS: {Use.PROMPTS},
    Recipe.PAIRS: {Use.PAIRS},
    Recipe.HHRLHF: set(Use),
    Recipe.FUNCTION: set(Use),
}


def pipeline_problems(spec: PPOJobSpec, judge: Judge) -> Iterator[Problem]:
    """Of all stages beside training; the trial's spec is judged as one of its own."""
    yield from _data(spec)
    yield from _reward(spec)
    if spec.evaluation is not None:
        yield from _evaluation(spec, spec.evaluation)
    if spec.export is not None and spec.export.format is ExportFormat.ADAPTER and spec.model.actor.lora is None:
        yield Problem(field="spec.export.format", message="Adapter needs spec.model.actor.lora; use Merged")
    if spec.trial is not None:
        for problem in judge(trial_spec(spec, spec.trial)):
            message = f"the trial's spec would be refused: {problem}"
            yield Problem(field="spec.trial", message=message)


def _data(spec: PPOJobSpec) -> Iterator[Problem]:
    data = spec.data
    if data.prepare is None:
        for name, paths in (("train", data.train), ("validation", data.validation)):
            if not paths:
                yield Problem(field=f"spec.data.{name}", message="is required, unless spec.data.prepare makes it")
        return
    if data.train or data.validation:
        yield Problem(field="spec.data.prepare", message="set either prepare, or train and validation")
    yield from _prepare(data.prepare)


def _prepare(prepare: Prepare) -> Iterator[Problem]:
    if all(use_of(source) is Use.PAIRS for source in prepare.sources):
        message = "at least one source must give prompts: the run is trained on them"
        yield Problem(field="spec.data.prepare.sources", message=message)
    for source in prepare.sources:
        yield from _source(source, f"spec.data.prepare.sources[{source.name}]")


def _source(source: PrepareSource, path: str) -> Iterator[Problem]:
    if (source.recipe is Recipe.FUNCTION) != (source.function is not None):
        yield Problem(field=f"{path}.function", message="goes with recipe Function, and only with it")
    if use_of(source) not in _FITTING[source.recipe]:
        allowed = " or ".join(sorted(use.value for use in _FITTING[source.recipe]))
        yield Problem(field=f"{path}.use", message=f"recipe {source.recipe} gives {allowed}")
    for index, file in enumerate(source.files):
        if not file.startswith("/") and file.endswith(_FILE_ENDINGS):
            message = (
                "must be an absolute path in the trainer's pods (the claim is at /ppojob/storage), or a hub's name"
            )
            yield Problem(field=f"{path}.files[{index}]", message=message)


def _reward(spec: PPOJobSpec) -> Iterator[Problem]:
    trained = [term for term in spec.reward.terms if term.training is not None]
    if len(trained) > 1:
        names = ", ".join(term.name for term in trained)
        yield Problem(field="spec.reward.terms", message=f"only one term can have training: {names} have it")
    term = trained_term(spec)
    if term is None or term.training is None:
        return
    training, path = term.training, f"spec.reward.terms[{term.name}].training"
    if bool(training.train) != bool(training.validation):
        yield Problem(field=path, message="set train and validation, or neither: the prepared pairs are taken then")
    sources = spec.data.prepare.sources if spec.data.prepare else []
    if not training.train and all(use_of(source) is Use.PROMPTS for source in sources):
        message = "is required: no source of spec.data.prepare gives pairs"
        yield Problem(field=f"{path}.train", message=message)
    devices = effective.devices(spec)
    if training.batch_size % devices:
        message = f"must be a multiple of the {devices} devices of spec.cluster"
        yield Problem(field=f"{path}.batchSize", message=message)


def _prompts(prompts: EvaluationPrompts, path: str) -> Iterator[Problem]:
    for index, file in enumerate(prompts.files):
        if not file.startswith("/"):
            message = "must be an absolute path in the trainer's pods (the claim is at /ppojob/storage)"
            yield Problem(field=f"{path}.files[{index}]", message=message)
    if prompts.format is PromptFormat.PARQUET and any(file.endswith(_JSON_ENDINGS) for file in prompts.files):
        message = "Parquet, the default, reads no JSON: set JSONL or MTBench"
        yield Problem(field=f"{path}.format", message=message)


def _evaluation(spec: PPOJobSpec, evaluation: Evaluation) -> Iterator[Problem]:
    path, judge, baseline = "spec.evaluation", evaluation.judge, evaluation.baseline
    for prompts in evaluation.prompts:
        yield from _prompts(prompts, f"{path}.prompts[{prompts.name}]")
    if sum(item is not None for item in (judge.term, judge.reward_model, judge.endpoint)) != 1:
        yield Problem(field=f"{path}.judge", message="set exactly one of term, rewardModel, endpoint")
    if judge.term is not None and judge.term not in {term.name for term in spec.reward.terms}:
        known = ", ".join(term.name for term in spec.reward.terms)
        yield Problem(field=f"{path}.judge.term", message=f"there is no such term in spec.reward.terms ({known})")
    total, every = spec.training.total_steps, spec.checkpoints.every_steps
    if baseline.step is not None and (baseline.step > total or (baseline.step % every and baseline.step != total)):
        message = f"no checkpoint of step {baseline.step} is saved: every {every} steps up to {total}"
        yield Problem(field=f"{path}.baseline.step", message=message)
    if sum(item is not None for item in (baseline.step, baseline.job, baseline.path)) > 1:
        yield Problem(field=f"{path}.baseline", message="set one of step, job, path, or nothing: the reference")
