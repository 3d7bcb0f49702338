"""What a reward model's engine is asked, over HTTP; the engine itself is asked on a GPU (`checks/device_reward.py`)."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from ppojob_trainer.rewards.answers import Answer
from ppojob_trainer.rewards.models import Conversations, EngineModel
from ppojob_trainer.rewards.terms import ERROR_KEY, FAILED_KEY, Term, total

ANSWERS = {
    "/classify": {"data": [{"probs": [0.5]}]},
    "/v1/embeddings": {"data": [{"embedding": [-1.5]}]},
}
TEXT = "<s>user: 1 + 1? assistant: 2</s>"


class Template:
    """One token a character."""

    bos_token = "<s>"

    def apply_chat_template(self, messages: list[dict[str, str]], *, tokenize: bool) -> str:
        assert not tokenize
        return "<s>" + " ".join(f"{message['role']}: {message['content']}" for message in messages) + "</s>"

    def __call__(self, text: str, *, add_special_tokens: bool) -> dict[str, list[int]]:
        assert not add_special_tokens
        return {"input_ids": [ord(character) for character in text]}

    def decode(self, tokens: list[int]) -> str:
        return "".join(map(chr, tokens))


def conversations(limit: int | None = None) -> Conversations:
    found = Conversations("/models/liked", limit, trust_remote_code=False)
    vars(found).update(tokenizer=Template(), max_length=limit)
    return found


@contextmanager
def engine(asked: list[tuple[str, Any]], status: int = 200) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            body = json.dumps(ANSWERS[self.path]).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


ANSWER = Answer(response="2", prompt=[{"role": "user", "content": "1 + 1?"}])


def test_vllm_classifies_the_very_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    asked: list[tuple[str, Any]] = []
    with engine(asked) as address:
        assert EngineModel(conversations(), "VLLM", address)(ANSWER) == 0.5
    request = {"model": "/models/liked", "input": TEXT, "use_activation": False, "add_special_tokens": False}
    assert asked == [("/classify", request)]


def test_sglang_puts_the_first_token_itself() -> None:
    asked: list[tuple[str, Any]] = []
    with engine(asked) as address:
        assert EngineModel(conversations(), "SGLang", address)(ANSWER) == -1.5
    assert asked == [("/v1/embeddings", {"model": "/models/liked", "input": TEXT.removeprefix("<s>")})]


def test_of_what_is_too_long_the_end_is_read() -> None:
    asked: list[tuple[str, Any]] = []
    with engine(asked) as address:
        EngineModel(conversations(10), "VLLM", address)(ANSWER)
    assert asked[0][1]["input"] == TEXT[-10:]


def test_an_engine_that_does_not_answer_fails_the_sample() -> None:
    with engine([], status=500) as address:
        refused = total([Term("liked", 1.0, EngineModel(conversations(), "VLLM", address))], ANSWER)
    absent = total([Term("liked", 1.0, EngineModel(conversations(), "VLLM", None))], ANSWER)
    assert refused[FAILED_KEY] == absent[FAILED_KEY] == 1.0
    assert "HTTP Error 500" in str(refused[ERROR_KEY])
    assert "serves no reward model" in str(absent[ERROR_KEY])
