"""What a person reads of an evaluation, and the same for programs."""

from collections.abc import Mapping, Sequence
from typing import Any

from ppojob_trainer.stages.conversations import Conversation
from ppojob_trainer.stages.evaluate.judging import Case
from ppojob_trainer.stages.evaluate.settings import EndpointJudge, EvaluateSettings, Judge, RewardModelJudge
from ppojob_trainer.stages.evaluate.verdicts import Outcome, Summary, Tally, Verdict

_LONGEST_TEXT = 4000
"""Characters of a message in the Markdown report; the JSON has all of it."""


def message(summary: Summary) -> str:
    """One line."""
    tally = summary.all
    low, high = tally.interval
    told = (
        f"candidate wins {tally.win_rate:.1%} (95 %: {low:.1%} to {high:.1%}) of {tally.judged} prompts: "
        f"{tally.wins} wins, {tally.ties} ties, {tally.losses} losses"
    )
    return told + (f"; {summary.unjudged} could not be judged" if summary.unjudged else "")


def as_json(
    settings: EvaluateSettings, cases: Sequence[Case], verdicts: Mapping[int, Verdict], summary: Summary
) -> dict[str, Any]:
    """Everything: each question with both answers and the verdict."""
    return {
        "message": message(summary),
        "candidate": settings.candidate.path,
        "baseline": settings.baseline.path,
        "judge": judge_told(settings.judge),
        "figures": summary.figures(),
        "categories": {name: _row(tally) for name, tally in sorted(summary.categories.items())},
        "questions": [
            {
                "where": case.question.where,
                "category": case.question.category,
                "prompt": case.question.opening,
                "followUps": list(case.question.follow_ups),
                "candidate": list(case.candidate.texts),
                "baseline": list(case.baseline.texts),
                "verdict": verdicts[case.question.number].to_json(),
            }
            for case in cases
        ],
    }


def as_markdown(
    settings: EvaluateSettings, cases: Sequence[Case], verdicts: Mapping[int, Verdict], summary: Summary
) -> str:
    rows = {"all": summary.all, **dict(sorted(summary.categories.items()))}
    parts = [
        "# Evaluation",
        f"{message(summary)[:1].upper()}{message(summary)[1:]}.",
        "\n".join(
            [
                f"- candidate: `{settings.candidate.path}`",
                f"- baseline: `{settings.baseline.path}`",
                f"- judge: {judge_told(settings.judge)}",
            ]
        ),
        _table(rows),
        *_facts(summary),
    ]
    for title, chosen in telling(cases, verdicts, settings.examples):
        parts.append(f"## {title}")
        parts += [_example(case, verdicts[case.question.number]) for case in chosen]
    return "\n\n".join(parts) + "\n"


def telling(cases: Sequence[Case], verdicts: Mapping[int, Verdict], count: int) -> list[tuple[str, list[Case]]]:
    """The clearest wins and the clearest losses, half of `count` each."""
    found = []
    for outcome, title in ((Outcome.WIN, "Clearest wins"), (Outcome.LOSS, "Clearest losses")):
        those = [case for case in cases if verdicts[case.question.number].outcome is outcome]
        those.sort(key=lambda case: -abs(verdicts[case.question.number].margin))
        if chosen := those[: (count + 1) // 2]:
            found.append((title, chosen))
    return found


def judge_told(judge: Judge) -> str:
    if isinstance(judge, RewardModelJudge):
        return f"reward model {judge.path}"
    if isinstance(judge, EndpointJudge):
        return f"{judge.model} at {judge.url}, asked in both orders"
    return f"reward terms {', '.join(str(term.get('name')) for term in judge.terms)}"


def _row(tally: Tally) -> dict[str, float]:
    low, high = tally.interval
    return {
        "prompts": tally.judged,
        "wins": tally.wins,
        "ties": tally.ties,
        "losses": tally.losses,
        "winRate": tally.win_rate,
        "winRateLow": low,
        "winRateHigh": high,
    }


def _table(rows: Mapping[str, Tally]) -> str:
    lines = ["| | prompts | wins | ties | losses | win rate | 95 % |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for name, tally in rows.items():
        low, high = tally.interval
        counts = f"{tally.judged} | {tally.wins} | {tally.ties} | {tally.losses}"
        lines.append(f"| {_cell(name)} | {counts} | {tally.win_rate:.1%} | {low:.1%} to {high:.1%} |")
    return "\n".join(lines)


def _facts(summary: Summary) -> list[str]:
    facts = ["Ties count half in the win rate. The interval is Wilson's."]
    if summary.mean_scores is not None:
        facts.append(f"Mean score: candidate {summary.mean_scores[0]:.4g}, baseline {summary.mean_scores[1]:.4g}.")
    if summary.swaps_disagreed:
        facts.append(f"On {summary.swaps_disagreed} prompts the judge changed its mind with the order: ties.")
    if summary.unjudged:
        facts.append(f"{summary.unjudged} prompts could not be judged and are in no count.")
    return [" ".join(facts)]


def _example(case: Case, verdict: Verdict) -> str:
    scores = "" if verdict.scores is None else f", scores {verdict.scores[0]:.4g} and {verdict.scores[1]:.4g}"
    category = f" ({case.question.category})" if case.question.category else ""
    shared = len(case.question.opening)
    candidate, baseline = (
        case.question.conversation(reply.texts)[shared:] for reply in (case.candidate, case.baseline)
    )
    return "\n\n".join(
        [
            f"### {case.question.where}{category}: margin {verdict.margin:.4g}{scores}",
            _quoted(case.question.opening),
            f"**Candidate**\n\n{_quoted(candidate)}",
            f"**Baseline**\n\n{_quoted(baseline)}",
        ]
    )


def _quoted(talk: Conversation) -> str:
    text = "\n\n".join(f"{message['role']}: {message['content']}" for message in talk)
    text = text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}text\n{text}\n{fence}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
