# mypy: disable-error-code="import, misc, no-untyped-call, attr-defined, union-attr, arg-type"
"""A reward model: a sequence classifier of transformers with one label, whose logit is the score.

Either in this process, in batches of what waits at the time, or in the engine that verl starts for it on the devices
(`verl/experimental/reward_loop/reward_model.py`). Both get the same text: the conversation with the response as its
last message, in the reward model's own chat template.
"""

import gc
import json
import logging
import queue
import threading
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import cached_property
from pathlib import Path
from typing import Any

from ppojob_trainer.rewards.answers import Answer

log = logging.getLogger(__name__)

IN_PROCESS = "Transformers"
BATCH = 16
"""Texts of one forward pass."""
ENGINE_SECONDS = 600
"""For one request: the engine has all others before it."""


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Inside the cluster no proxy is asked, whatever the environment says."""


class RewardModelError(ValueError):
    """A model that cannot give rewards."""


def in_engine(spec: Mapping[str, Any]) -> bool:
    """Whether verl serves the model of this term (`spec` is the term's `model`)."""
    return str(spec.get("engine", IN_PROCESS)) != IN_PROCESS


def reward_model(spec: Mapping[str, Any], engine_address: str | None) -> "TransformersModel | EngineModel":
    """Reads nothing yet."""
    texts = Texts(str(spec["path"]), spec.get("maxLength"), trust_remote_code=bool(spec.get("trustRemoteCode")))
    return EngineModel(texts, str(spec["engine"]), engine_address) if in_engine(spec) else TransformersModel(texts)


class Texts:
    """What the model is to read, and the model's own files."""

    def __init__(self, path: str, max_length: int | None, *, trust_remote_code: bool) -> None:
        self.path = path
        self.options = {"trust_remote_code": trust_remote_code}
        self._max_length = max_length
        self._lock = threading.Lock()
        """A tokenizer is not for two threads at once: each call sets its padding."""

    @cached_property
    def tokenizer(self) -> Any:
        from transformers import AutoTokenizer  # noqa: PLC0415 - seconds of imports that rules alone do not pay

        tokenizer = AutoTokenizer.from_pretrained(self.path, **self.options)
        if tokenizer.chat_template is None:
            raise RewardModelError(f"the tokenizer of {self.path} has no chat template to put a conversation into")
        return tokenizer

    @cached_property
    def config(self) -> Any:
        from transformers import AutoConfig  # noqa: PLC0415

        config = AutoConfig.from_pretrained(self.path, **self.options)
        kinds = [kind for kind in config.architectures or [] if kind.endswith("ForSequenceClassification")]
        if not kinds:
            raise RewardModelError(f"{self.path} is {config.architectures}, not a model for sequence classification")
        if config.num_labels != 1:
            raise RewardModelError(f"{self.path} has {config.num_labels} labels; a reward model has one")
        return config

    @property
    def max_length(self) -> int | None:
        """Tokens that the model may read."""
        limits = [self._max_length, getattr(self.config, "max_position_embeddings", None)]
        return min((limit for limit in limits if limit), default=None)

    def of(self, answer: Answer) -> str:
        """Without the token that encoding puts before it; of what is too long, the end."""
        messages = [dict(message) for message in answer.prompt] + [{"role": "assistant", "content": answer.response}]
        text = str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=False))
        begin = self.tokenizer.bos_token
        return self._shortened(text.removeprefix(begin) if begin else text)

    def encoded(self, texts: Sequence[str]) -> Any:
        """As tensors, with what encoding puts around a text."""
        options = {"padding": True, "padding_side": "right"} if len(texts) > 1 else {}
        with self._lock:
            inputs = self.tokenizer(list(texts), return_tensors="pt", **options)
        inputs.pop("token_type_ids", None)
        return inputs

    def _shortened(self, text: str) -> str:
        limit = self.max_length
        if limit is None:
            return text
        with self._lock:
            tokens = self.tokenizer(text, add_special_tokens=False)["input_ids"]
            room = limit - self.tokenizer.num_special_tokens_to_add()
            return text if len(tokens) <= room else str(self.tokenizer.decode(tokens[-room:]))


class TransformersModel:
    """In this process. Whoever calls waits; one thread scores what waits, in batches."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._model: Any = None
        self._waiting: queue.Queue[tuple[str, Future[float]] | None] = queue.Queue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def load(self) -> None:
        with self._lock:
            if self._model is None:
                self._model = _loaded(self._texts)
                self._thread = threading.Thread(target=self._serve, name="reward-model", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Frees the model."""
        with self._lock:
            if self._thread is not None:
                self._waiting.put(None)
                self._thread.join()
            self._model = self._thread = None
        gc.collect()

    def __call__(self, answer: Answer) -> float:
        self.load()
        result: Future[float] = Future()
        self._waiting.put((self._texts.of(answer), result))
        return result.result()

    def _serve(self) -> None:
        while True:
            batch = [self._waiting.get()]
            while len(batch) < self._batch_size and batch[-1] is not None and not self._waiting.empty():
                batch.append(self._waiting.get())
            waiting = [item for item in batch if item is not None]
            try:
                scores = self._scores([text for text, _ in waiting]) if waiting else []
            except Exception as error:
                for _, result in waiting:
                    result.set_exception(error)
            else:
                for (_, result), score in zip(waiting, scores, strict=True):
                    result.set_result(score)
            if batch[-1] is None:
                return

    @property
    def _batch_size(self) -> int:
        """Transformers refuses batches without a padding token: it could not tell where a text ends."""
        return 1 if self._model.config.pad_token_id is None else BATCH

    def _scores(self, texts: Sequence[str]) -> list[float]:
        import torch  # noqa: PLC0415

        with torch.inference_mode():
            return [float(value) for value in self._model(**self._texts.encoded(texts)).logits[:, -1]]


class EngineModel:
    """In verl's reward engine, through its router."""

    def __init__(self, texts: Texts, engine: str, address: str | None) -> None:
        self._texts = texts
        self._engine = engine
        self._address = address

    def load(self) -> None:
        """The engine loads the weights; here it is looked at whether they can be those of a reward model."""
        _ = self._texts.config, self._texts.tokenizer

    def close(self) -> None:
        """Nothing is held."""

    def __call__(self, answer: Answer) -> float:
        if self._address is None:
            raise RewardModelError("verl serves no reward model here")
        request = {"model": self._texts.path, "input": self._texts.of(answer)}
        if self._engine == "VLLM":
            data = self._post("classify", request | {"use_activation": False})
            return float(data["data"][-1]["probs"][-1])
        return float(self._post("v1/embeddings", request)["data"][-1]["embedding"][-1])

    def _post(self, endpoint: str, value: Mapping[str, Any]) -> Any:
        request = urllib.request.Request(
            f"http://{self._address}/{endpoint}",
            data=json.dumps(value).encode(),
            headers={"Content-Type": "application/json"},
        )
        with _OPENER.open(request, timeout=ENGINE_SECONDS) as response:
            return json.load(response)


def _loaded(texts: Texts) -> Any:
    """In single precision. Raises RewardModelError where a weight would be made up."""
    import torch  # noqa: PLC0415
    from transformers import AutoModelForSequenceClassification  # noqa: PLC0415

    _ = texts.config, texts.tokenizer
    model, info = AutoModelForSequenceClassification.from_pretrained(
        texts.path, dtype=torch.float32, output_loading_info=True, **texts.options
    )
    if missing := sorted(info["missing_keys"]):
        raise RewardModelError(f"{texts.path} is no reward model: it lacks the weights {', '.join(missing[:3])}")
    log.info("reward model %s is loaded", Path(texts.path).name)
    return model.eval()
