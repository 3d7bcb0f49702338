# mypy: disable-error-code="import, misc, no-untyped-call, attr-defined, union-attr, arg-type"
"""A reward model: a sequence classifier of transformers with one label, whose logit is the score.

Either in this process, in batches of what waits at the time, or in the engine that verl starts for it on the devices
(`verl/experimental/reward_loop/reward_model.py`). Both get the same tokens, those that a reward model is trained on
(`stages.scoring`): the conversation with the response as its last message, in the model's own chat template.
"""

import gc
import json
import queue
import threading
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import cached_property
from typing import Any

from ppojob_trainer.errors import ConfigError
from ppojob_trainer.rewards.answers import Answer
from ppojob_trainer.stages.conversations import require_template

IN_PROCESS = "Transformers"
BATCH = 16
"""Texts of one forward pass."""
ENGINE_SECONDS = 600
"""For one request: the engine has all others before it."""


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Inside the cluster no proxy is asked, whatever the environment says."""


def in_engine(spec: Mapping[str, Any]) -> bool:
    """Whether verl serves the model of this term (`spec` is the term's `model`)."""
    return str(spec.get("engine", IN_PROCESS)) != IN_PROCESS


def reward_model(spec: Mapping[str, Any], engine_address: str | None) -> "TransformersModel | EngineModel":
    """Reads nothing yet."""
    path, remote_code = str(spec["path"]), bool(spec.get("trustRemoteCode"))
    conversations = Conversations(path, spec.get("maxLength"), trust_remote_code=remote_code)
    if in_engine(spec):
        return EngineModel(conversations, str(spec["engine"]), engine_address)
    return TransformersModel(conversations)


class Conversations:
    """What the model is to read, and the model's own files."""

    def __init__(self, path: str, max_length: int | None, *, trust_remote_code: bool) -> None:
        self.path = path
        self.trust_remote_code = trust_remote_code
        self._max_length = max_length

    @cached_property
    def tokenizer(self) -> Any:
        from transformers import AutoTokenizer  # noqa: PLC0415 - seconds of imports that rules alone do not pay

        tokenizer = AutoTokenizer.from_pretrained(self.path, trust_remote_code=self.trust_remote_code)
        require_template(tokenizer, self.path)
        return tokenizer

    @cached_property
    def config(self) -> Any:
        from transformers import AutoConfig  # noqa: PLC0415

        config = AutoConfig.from_pretrained(self.path, trust_remote_code=self.trust_remote_code)
        kinds = [kind for kind in config.architectures or [] if kind.endswith("ForSequenceClassification")]
        if not kinds:
            raise ConfigError(f"{self.path} is {config.architectures}, not a model for sequence classification")
        if config.num_labels != 1:
            raise ConfigError(f"{self.path} has {config.num_labels} labels; a reward model has one")
        return config

    @cached_property
    def max_length(self) -> int | None:
        """Tokens that the model may read; of what is longer it reads the end."""
        limits = [self._max_length, getattr(self.config, "max_position_embeddings", None)]
        return min((limit for limit in limits if limit), default=None)

    def of(self, answer: Answer) -> list[dict[str, Any]]:
        return [*(dict(message) for message in answer.prompt), {"role": "assistant", "content": answer.response}]

    def check(self) -> None:
        """Raises ConfigError where the files cannot be those of a reward model."""
        _ = self.config, self.tokenizer


class TransformersModel:
    """In this process. Whoever calls waits; one thread scores what waits, in batches."""

    def __init__(self, conversations: Conversations) -> None:
        self._conversations = conversations
        self._scorer: Any = None
        self._waiting: queue.Queue[tuple[Answer, Future[float]] | None] = queue.Queue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def load(self) -> None:
        from ppojob_trainer.stages.scoring import Scorer  # noqa: PLC0415 - torch

        with self._lock:
            if self._scorer is None:
                given = self._conversations
                given.check()
                self._scorer = Scorer.load(
                    given.path,
                    trust_remote_code=given.trust_remote_code,
                    device="cpu",
                    max_length=given.max_length,
                )
                self._thread = threading.Thread(target=self._serve, name="reward-model", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Frees the model."""
        with self._lock:
            if self._thread is not None:
                self._waiting.put(None)
                self._thread.join()
            self._scorer = self._thread = None
        gc.collect()

    def __call__(self, answer: Answer) -> float:
        self.load()
        result: Future[float] = Future()
        self._waiting.put((answer, result))
        return result.result()

    def _serve(self) -> None:
        while (batch := self._next_batch())[-1] is not None:
            self._score([item for item in batch if item is not None])
        self._score([item for item in batch if item is not None])

    def _next_batch(self) -> list[tuple[Answer, Future[float]] | None]:
        batch = [self._waiting.get()]
        while len(batch) < BATCH and batch[-1] is not None and not self._waiting.empty():
            batch.append(self._waiting.get())
        return batch

    def _score(self, batch: Sequence[tuple[Answer, Future[float]]]) -> None:
        try:
            tokens = self._scorer.encode([self._conversations.of(answer) for answer, _ in batch])
            scores = self._scorer.score(tokens, BATCH)
        except Exception as error:
            for _, result in batch:
                result.set_exception(error)  # theirs who wait
        else:
            for (_, result), score in zip(batch, scores, strict=True):
                result.set_result(score)


class EngineModel:
    """In verl's reward engine, through its router."""

    def __init__(self, conversations: Conversations, engine: str, address: str | None) -> None:
        self._conversations = conversations
        self._engine = engine
        self._address = address
        self._lock = threading.Lock()
        """A tokenizer is not for two threads at once."""

    def load(self) -> None:
        """The engine loads the weights; here it is looked at whether they can be those of a reward model."""
        self._conversations.check()

    def close(self) -> None:
        """Nothing is held."""

    def __call__(self, answer: Answer) -> float:
        if self._address is None:
            raise ConfigError("verl serves no reward model here")
        with self._lock:
            text = self._text(answer)
        if self._engine == "VLLM":
            data = self._post("classify", {"input": text, "use_activation": False, "add_special_tokens": False})
            return float(data["data"][-1]["probs"][-1])
        begin = self._conversations.tokenizer.bos_token  # which SGLang puts before it
        data = self._post("v1/embeddings", {"input": text.removeprefix(begin) if begin else text})
        return float(data["data"][-1]["embedding"][-1])

    def _text(self, answer: Answer) -> str:
        tokenizer, limit = self._conversations.tokenizer, self._conversations.max_length
        text = str(tokenizer.apply_chat_template(self._conversations.of(answer), tokenize=False))
        tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
        return text if limit is None or len(tokens) <= limit else str(tokenizer.decode(tokens[-limit:]))

    def _post(self, endpoint: str, value: Mapping[str, Any]) -> Any:
        request = urllib.request.Request(
            f"http://{self._address}/{endpoint}",
            data=json.dumps({"model": self._conversations.path, **value}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with _OPENER.open(request, timeout=ENGINE_SECONDS) as response:
            return json.load(response)
