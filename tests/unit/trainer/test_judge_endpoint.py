"""The judge behind an endpoint, against a real HTTP server in this process."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.unit.trainer.test_evaluation import case

from ppojob_trainer.errors import CommunicationError, ConfigError
from ppojob_trainer.stages.evaluate import endpoint, judging
from ppojob_trainer.stages.evaluate.endpoint import ATTEMPTS, question_text, verdict_of
from ppojob_trainer.stages.evaluate.judging import Case, Verdicts
from ppojob_trainer.stages.evaluate.settings import EndpointJudge
from ppojob_trainer.stages.evaluate.verdicts import Outcome, Verdict

KEY = "sk-secret"
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def said(text: str) -> web.Response:
    return web.json_response({"choices": [{"message": {"role": "assistant", "content": text}}]})


def shown(body: dict[str, Any], name: str) -> str:
    """What the judge sees of assistant A or B."""
    text: str = body["messages"][-1]["content"]
    return text.split(f"<assistant_{name}>")[1].split(f"</assistant_{name}>", maxsplit=1)[0]


async def prefers_good(request: web.Request) -> web.Response:
    body = await request.json()
    a, b = ("good" in shown(body, name) for name in "AB")
    return said("I weigh [[B]] too. [[C]]" if a == b else "Clear.\n[[A]]" if a else "[[B]]")


@asynccontextmanager
async def serving(answer: Answer, **changes: Any) -> AsyncIterator[EndpointJudge]:
    application = web.Application()
    application.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    told = {"url": f"http://127.0.0.1:{port}/v1", "model": "judge", "api_key_env": None, "timeout_seconds": 5.0}
    try:
        yield EndpointJudge(**{**told, "concurrency": 8, **changes})
    finally:
        await runner.cleanup()


async def judged(judge: EndpointJudge, cases: list[Case], pauses: list[float] | None = None) -> list[Verdict]:
    async def sleep(seconds: float) -> None:
        (pauses if pauses is not None else []).append(seconds)

    async with endpoint.opened(judge, sleep) as opened:
        return list(await asyncio.gather(*(judging._compare(opened, item) for item in cases)))


async def test_both_orders_agree_on_the_better_answer() -> None:
    cases = [case(0, "good", "bad"), case(1, "bad", "good"), case(2, "bad", "worse")]
    async with serving(prefers_good) as judge:
        found = await judged(judge, cases)
    assert [verdict.outcome for verdict in found] == [Outcome.WIN, Outcome.LOSS, Outcome.TIE]
    assert not any(verdict.swap_disagreed for verdict in found)


async def test_a_judge_that_likes_the_first_is_cancelled_out() -> None:
    async def first(_: web.Request) -> web.Response:
        return said("[[A]]")

    async with serving(first) as judge:
        (verdict,) = await judged(judge, [case(0, "one", "other")])
    assert (verdict.outcome, verdict.margin, verdict.swap_disagreed) == (Outcome.TIE, 0.0, True)


async def test_the_same_answer_is_a_tie_and_costs_nothing() -> None:
    async def never(_: web.Request) -> web.Response:
        raise AssertionError

    async with serving(never) as judge:
        (verdict,) = await judged(judge, [case(0, "same", "same")])
    assert verdict.outcome is Outcome.TIE


async def test_an_answer_without_a_verdict_is_not_counted() -> None:
    async def vague(_: web.Request) -> web.Response:
        return said("Both have their merits.")

    async with serving(vague) as judge:
        (verdict,) = await judged(judge, [case(0, "one", "other")])
    assert (verdict.outcome, verdict.note) == (None, "no verdict in the judge's answer")


async def test_busy_answers_are_asked_again_with_longer_pauses() -> None:
    statuses, pauses = iter([429, 503, 500]), list[float]()

    async def busy(request: web.Request) -> web.Response:
        status = next(statuses, 200)
        return web.Response(status=status) if status != 200 else await prefers_good(request)

    async with serving(busy, concurrency=1) as judge:
        (verdict,) = await judged(judge, [case(0, "good", "bad")], pauses)
    assert (verdict.outcome, pauses) == (Outcome.WIN, [1.0, 2.0, 4.0])


async def test_a_slow_answer_is_given_up_and_asked_again() -> None:
    asked = []

    async def slow(request: web.Request) -> web.StreamResponse:
        asked.append(request)
        if len(asked) == 1:
            await asyncio.Event().wait()
        return await prefers_good(request)

    async with serving(slow, concurrency=1, timeout_seconds=0.3) as judge:
        (verdict,) = await judged(judge, [case(0, "good", "bad")])
    assert (verdict.outcome, len(asked)) == (Outcome.WIN, 3)


async def test_an_endpoint_that_is_down_may_be_tried_again_later() -> None:
    async with serving(prefers_good) as judge:
        pass
    pauses: list[float] = []
    with pytest.raises(CommunicationError, match=rf"judge {judge.url} did not answer in {ATTEMPTS} attempts: \S+"):
        await judged(judge, [case(0, "good", "bad")], pauses)
    assert sum(pauses) > 10
    assert CommunicationError.exit_class.retryable


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, "no", "refuses the key .HTTP 401.: check what JUDGE_KEY is set from"),
        (404, "no such model", "refuses .HTTP 404.: no such model"),
        (302, "", "refuses .HTTP 302."),
        (200, "<html>", "does not answer as OpenAI's chat completions do: <html>"),
        (200, json.dumps({"choices": []}), "does not answer as"),
    ],
)
async def test_what_asking_again_cannot_mend(
    status: int, body: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    async def refuse(request: web.Request) -> web.Response:
        asked.append(request)
        return web.Response(status=status, text=body, headers={"Location": "/elsewhere"})

    monkeypatch.setenv("JUDGE_KEY", KEY)
    async with serving(refuse, api_key_env="JUDGE_KEY", concurrency=1) as judge:
        with pytest.raises(ConfigError, match=words) as raised:
            await judged(judge, [case(0, "one", "other")])
    assert KEY not in str(raised.value)


async def test_the_key_is_sent_and_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = []

    async def note(request: web.Request) -> web.Response:
        keys.append(request.headers.get("Authorization"))
        return said("[[C]]")

    async with serving(note, api_key_env="JUDGE_KEY") as judge:
        monkeypatch.delenv("JUDGE_KEY", raising=False)
        with pytest.raises(ConfigError, match="JUDGE_KEY, the judge's key, is not set"):
            await judged(judge, [case(0, "one", "other")])
        monkeypatch.setenv("JUDGE_KEY", f"{KEY}\n")
        await judged(judge, [case(0, "one", "other")])
    assert keys == [f"Bearer {KEY}"] * 2


async def test_no_more_are_asked_at_once_than_said() -> None:
    now, most, three = 0, 0, asyncio.Barrier(3)

    async def count(request: web.Request) -> web.Response:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await three.wait()
        now -= 1
        return await prefers_good(request)

    async with serving(count, concurrency=3) as judge:
        await judged(judge, [case(number, "good", "bad") for number in range(12)])
    assert most == 3


async def test_a_killed_run_asks_only_for_the_rest(tmp_path: Path) -> None:
    asked: list[str] = []

    async def note(request: web.Request) -> web.Response:
        asked.append(shown(await request.json(), "A"))
        return await prefers_good(request)

    cases = [case(number, "good", f"bad {number}") for number in range(6)]
    async with serving(note, concurrency=1) as judge:
        verdicts = Verdicts(tmp_path / "v.jsonl")
        await judging._ask(judge, cases[:4], verdicts, lambda: None)
        asked.clear()
        again = Verdicts(tmp_path / "v.jsonl")
        await judging._ask(judge, again.lacking(cases), again, lambda: None)
    assert len(asked) == 4
    assert len(again.found) == 6


async def test_a_stop_ends_the_questions(tmp_path: Path) -> None:
    async def hangs(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    def stop() -> None:
        raise KeyboardInterrupt

    async with serving(hangs) as judge:
        with pytest.raises(KeyboardInterrupt):
            await judging._ask(judge, [case(0, "one", "other")], Verdicts(tmp_path / "v.jsonl"), stop)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[[A]]", Outcome.WIN),
        ("[[b]]", Outcome.LOSS),
        ("first I thought [[A]] but [[ C ]]", Outcome.TIE),
        ("A is better", None),
        ("", None),
    ],
)
def test_the_last_word_counts(text: str, expected: Outcome | None) -> None:
    assert verdict_of(text) is expected


def test_what_is_asked_shows_the_conversation_once() -> None:
    opening = [{"role": "user", "content": "Why?"}]
    one, other = ([*opening, {"role": "assistant", "content": text}] for text in ("Because.", "No idea."))
    text = question_text(one, other, shared=1)
    assert text.count("Why?") == 1
    assert text.index("Because.") < text.index("No idea.")
