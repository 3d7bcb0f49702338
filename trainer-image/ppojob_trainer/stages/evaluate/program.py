# mypy: disable-error-code="import, no-untyped-call"
"""The driver of an evaluation: both models answer, the judge judges, the report is written."""

import logging
import time
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from ppojob_contract.durable import write_json
from ppojob_contract.stages import StageResult
from ppojob_trainer.errors import ConfigError, DataError
from ppojob_trainer.stages import gang, model_files
from ppojob_trainer.stages.context import StageContext
from ppojob_trainer.stages.conversations import require_template
from ppojob_trainer.stages.evaluate import answering, generation, judging, prompt_files, replies, report, reward_judge
from ppojob_trainer.stages.evaluate.judging import Case, Verdicts
from ppojob_trainer.stages.evaluate.questions import Question, drawn
from ppojob_trainer.stages.evaluate.replies import Reply
from ppojob_trainer.stages.evaluate.settings import (
    EndpointJudge,
    Engine,
    EvaluateSettings,
    RewardModelJudge,
    Side,
    TermsJudge,
)
from ppojob_trainer.stages.evaluate.verdicts import by_scores, summary
from ppojob_trainer.stages.export.merging import merge

log = logging.getLogger(__name__)

_LOOK_SECONDS = 5.0
"""Between two looks at how many answers there are."""


def run(context: StageContext) -> None:
    """Raises what `classification` knows."""
    settings = EvaluateSettings.from_json(context.settings)
    _check(settings, context)
    questions, too_long = _questions(settings, context)
    sides = {"candidate": settings.candidate, "baseline": settings.baseline}
    answers = {name: _answers(name, side, questions, settings, context) for name, side in sides.items()}
    cases = [
        Case(question, answers["candidate"][question.number], answers["baseline"][question.number])
        for question in questions
    ]
    _publish(settings, cases, _judge(settings, cases, context), too_long, context)


def _check(settings: EvaluateSettings, context: StageContext) -> None:
    """What can be refused before a device is taken."""
    model_files.require(settings.model)
    for side in (settings.candidate, settings.baseline):
        if not side.is_checkpoint:
            model_files.require(side.path)
    if isinstance(settings.judge, RewardModelJudge):
        model_files.require_reward_model(settings.judge.path)
    per_node, each = context.config.devices_per_node, settings.tensor_parallel_size
    if settings.engine is Engine.VLLM and per_node % each:
        raise ConfigError(f"tensorParallelSize {each} does not divide the {per_node} devices of a node")


def _questions(settings: EvaluateSettings, context: StageContext) -> tuple[list[Question], int]:
    tokenizer = AutoTokenizer.from_pretrained(settings.model, trust_remote_code=settings.trust_remote_code)
    require_template(tokenizer, settings.model)

    def fits(opening: list[dict[str, str]]) -> bool:
        context.check()
        return len(answering.tokens_of(tokenizer, [opening])[0]) <= settings.max_prompt_length

    found, too_long = drawn(prompt_files.rows(settings.prompts), settings.max_prompts, settings.seed, fits)
    if not found:
        raise DataError(f"all {too_long} prompts are longer than maxPromptLength {settings.max_prompt_length}")
    log.info("%d prompts, %d passed over as too long", len(found), too_long)
    return found, too_long


def _answers(
    name: str, side: Side, questions: list[Question], settings: EvaluateSettings, context: StageContext
) -> dict[int, Reply]:
    there = replies.kept(context.work, name)
    if all(question.number in there for question in questions):
        return there
    if there:
        log.info("%s: %d answers of an earlier run are used", name, len(there))
    task = {
        "settings": dict(context.settings),
        "questions": [question.to_json() for question in questions],
        "work": str(context.work),
        "side": name,
        "model": _model(name, side, settings, context),
    }
    gang.run(generation.work, task, _shape(settings, context), context, _Watching(name, len(questions), context).look)
    return replies.kept(context.work, name)


def _model(name: str, side: Side, settings: EvaluateSettings, context: StageContext) -> str:
    """Folder or hub name of what answers; a checkpoint is merged once."""
    if not side.is_checkpoint:
        return side.path
    merged = context.work / f"merged-{name}"
    if not merged.exists():
        draft = context.work / f"merging-{name}-{context.config.run:04d}"
        merge(
            Path(side.path),
            settings.model,
            draft,
            trust_remote_code=settings.trust_remote_code,
            dtype=None,
            beat=context.check,
        )
        draft.rename(merged)
    return str(merged)


def _shape(settings: EvaluateSettings, context: StageContext) -> gang.Shape:
    config = context.config
    each = settings.tensor_parallel_size if settings.engine is Engine.VLLM else 1
    return gang.Shape(config.nodes, config.devices_per_node // each, each)


class _Watching:
    """Says how many answers there are."""

    def __init__(self, name: str, questions: int, context: StageContext) -> None:
        self.name = name
        self.questions = questions
        self.context = context
        self.next_look = 0.0

    def look(self) -> None:
        self.context.check()
        now = time.monotonic()
        if now >= self.next_look:
            self.next_look = now + _LOOK_SECONDS
            answered = len(replies.kept(self.context.work, self.name))
            self.context.figures({f"{self.name}Answers": answered, "prompts": self.questions})


def _judge(settings: EvaluateSettings, cases: list[Case], context: StageContext) -> Verdicts:
    verdicts = Verdicts(context.work / "verdicts.jsonl")
    match settings.judge:
        case RewardModelJudge():
            _by_reward_model(settings.judge, settings, verdicts.lacking(cases), verdicts, context)
        case TermsJudge():
            judging.by_terms(settings.judge, cases, settings.tie_margin, verdicts, context.check)
        case EndpointJudge():
            judging.by_endpoint(settings.judge, cases, verdicts, context.check)
    return verdicts


def _by_reward_model(
    judge: RewardModelJudge, settings: EvaluateSettings, cases: list[Case], verdicts: Verdicts, context: StageContext
) -> None:
    if not cases:
        return
    talks = [case.question.conversation(reply.texts) for case in cases for reply in (case.candidate, case.baseline)]
    task = {
        "model": judge.path,
        "maxLength": judge.max_length,
        "trustRemoteCode": settings.trust_remote_code,
        "conversations": talks,
    }
    rewards: list[float] = gang.run(reward_judge.work, task, gang.Shape(1, 1), context, context.check)[0]
    verdicts.keep(
        [
            by_scores(case.question.number, rewards[2 * place], rewards[2 * place + 1], settings.tie_margin)
            for place, case in enumerate(cases)
        ]
    )


def _publish(
    settings: EvaluateSettings, cases: list[Case], verdicts: Verdicts, too_long: int, context: StageContext
) -> None:
    """Raises ConfigError where the judge was of no use."""
    found = verdicts.found
    outcome = summary([found[case.question.number] for case in cases], _categories(cases))
    if outcome.unjudged > len(cases) / 2:
        note = next(verdict.note for verdict in found.values() if verdict.outcome is None)
        raise ConfigError(f"{outcome.unjudged} of {len(cases)} prompts could not be judged; the first: {note}")
    figures: dict[str, Any] = {**outcome.figures()}
    figures = {"promptsTooLong": float(too_long), **_lengths(cases), **figures}
    write_json(context.output / "report.json", report.as_json(settings, cases, found, outcome))
    (context.output / "report.md").write_text(report.as_markdown(settings, cases, found, outcome), encoding="utf-8")
    context.publish(StageResult(message=report.message(outcome), figures=figures))


def _categories(cases: list[Case]) -> dict[int, str]:
    return {case.question.number: case.question.category for case in cases}


def _lengths(cases: list[Case]) -> dict[str, float]:
    """Mean tokens of an answer: judges like long ones, so a difference says something."""
    sides = {
        "candidateTokens": [case.candidate.tokens for case in cases],
        "baselineTokens": [case.baseline.tokens for case in cases],
    }
    return {name: sum(map(sum, tokens)) / sum(len(turns) for turns in tokens) for name, tokens in sides.items()}
