# mypy: disable-error-code="import, no-untyped-call"
"""The judge at work: a verdict on every question, kept as it comes."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ppojob_trainer.errors import ConfigError
from ppojob_trainer.rewards.answers import Answer
from ppojob_trainer.rewards.terms import ERROR_KEY, FAILED_KEY, Term, build, total
from ppojob_trainer.stages.evaluate import endpoint, journal
from ppojob_trainer.stages.evaluate.questions import Question
from ppojob_trainer.stages.evaluate.replies import Reply
from ppojob_trainer.stages.evaluate.settings import EndpointJudge, TermsJudge
from ppojob_trainer.stages.evaluate.verdicts import Outcome, Verdict, by_orders, by_scores

_LOOK_SECONDS = 1.0

Between = Callable[[], None]
"""Called every now and then; raises to end."""


@dataclass(frozen=True, slots=True)
class Case:
    """A question with both answers."""

    question: Question
    candidate: Reply
    baseline: Reply


class Verdicts:
    """Those on disk; a killed run's are not asked for again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found = {verdict.number: verdict for verdict in map(Verdict.from_json, journal.read(path))}

    def keep(self, verdicts: Sequence[Verdict]) -> None:
        journal.append(self.path, [verdict.to_json() for verdict in verdicts])
        self.found |= {verdict.number: verdict for verdict in verdicts}

    def lacking(self, cases: Sequence[Case]) -> list[Case]:
        return [case for case in cases if case.question.number not in self.found]


def by_terms(judge: TermsJudge, cases: Sequence[Case], tie_margin: float, verdicts: Verdicts, between: Between) -> None:
    """The weighted sum of terms, of the last answer of each conversation."""
    terms = _terms(judge.terms)
    try:
        for case in verdicts.lacking(cases):
            between()
            scores = [total(terms, _answer(case.question, reply)) for reply in (case.candidate, case.baseline)]
            verdicts.keep([_by_totals(case.question.number, scores, tie_margin)])
    finally:
        for term in terms:
            term.close()


def by_endpoint(judge: EndpointJudge, cases: Sequence[Case], verdicts: Verdicts, between: Between) -> None:
    """Both orders of every question, some questions at once."""
    asyncio.run(_ask(judge, verdicts.lacking(cases), verdicts, between))


async def _ask(judge: EndpointJudge, cases: Sequence[Case], verdicts: Verdicts, between: Between) -> None:
    async with endpoint.opened(judge) as opened:
        asked = {asyncio.create_task(_compare(opened, case)) for case in cases}
        try:
            while asked:
                between()
                done, asked = await asyncio.wait(asked, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                verdicts.keep([task.result() for task in done])
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)


async def _compare(opened: endpoint.Endpoint, case: Case) -> Verdict:
    question = case.question
    if case.candidate.texts == case.baseline.texts:
        return Verdict(number=question.number, outcome=Outcome.TIE, note="the same answer")
    candidate, baseline = (question.conversation(reply.texts) for reply in (case.candidate, case.baseline))
    first, second = await opened.compare(candidate, baseline, shared=len(question.opening))
    return by_orders(question.number, first, second)


def _terms(specs: Sequence[Mapping[str, Any]]) -> list[Term]:
    terms = []
    for spec in specs:
        try:
            term = build(spec)
            term.load()
        except Exception as error:
            raise ConfigError(f"reward term {spec.get('name')} cannot judge: {error}") from error
        terms.append(term)
    return terms


def _answer(question: Question, reply: Reply) -> Answer:
    return Answer(
        response=reply.texts[-1],
        ground_truth=question.ground_truth,
        data_source=question.data_source,
        extra_info=question.extra_info or {},
        prompt=question.prompt(reply.texts[:-1]),
        tokens=reply.tokens[-1],
    )


def _by_totals(number: int, scores: Sequence[Mapping[str, float | str]], tie_margin: float) -> Verdict:
    failed = [str(score[ERROR_KEY]) for score in scores if score[FAILED_KEY]]
    if failed:
        return Verdict(number=number, outcome=None, note=failed[0])
    return by_scores(number, float(scores[0]["score"]), float(scores[1]["score"]), tie_margin)
