"""What a job says of its evaluation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from ppojob_trainer.errors import ConfigError


class Format(StrEnum):
    """How a file of prompts is read."""

    PARQUET = "Parquet"
    MT_BENCH = "MTBench"
    JSONL = "JSONL"


class Engine(StrEnum):
    """What generates the answers."""

    VLLM = "VLLM"
    TRANSFORMERS = "Transformers"


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two models."""

    path: str
    is_checkpoint: bool
    """A `global_step_N` of verl's, to be merged first; else a model that transformers loads."""


@dataclass(frozen=True, slots=True)
class PromptSource:
    files: tuple[str, ...]
    format: Format
    prompt_column: str
    category_column: str | None


@dataclass(frozen=True, slots=True)
class RewardModelJudge:
    """The higher reward is better."""

    path: str
    max_length: int | None = None
    """Tokens that it reads at most; None: all that it can."""


@dataclass(frozen=True, slots=True)
class TermsJudge:
    """The higher weighted sum of reward terms is better."""

    terms: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class EndpointJudge:
    """A model behind an OpenAI-compatible endpoint is asked, in both orders."""

    url: str
    model: str
    api_key_env: str | None
    """Name of the environment variable; the key itself is in no file."""
    timeout_seconds: float
    concurrency: int


Judge = RewardModelJudge | TermsJudge | EndpointJudge


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateSettings:
    """Of `spec.evaluation`."""

    candidate: Side
    baseline: Side
    model: str
    trust_remote_code: bool
    prompts: tuple[PromptSource, ...]
    max_prompts: int
    max_prompt_length: int
    max_response_length: int
    temperature: float
    seed: int
    engine: Engine
    tensor_parallel_size: int
    memory_fraction: float
    judge: Judge
    tie_margin: float
    examples: int

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Raises ConfigError naming the field."""
        try:
            return cls(
                candidate=side_of(value["candidate"]),
                baseline=side_of(value["baseline"]),
                model=str(value["model"]),
                trust_remote_code=bool(value["trustRemoteCode"]),
                prompts=tuple(source_of(item) for item in value["prompts"]),
                max_prompts=int(value["maxPrompts"]),
                max_prompt_length=int(value["maxPromptLength"]),
                max_response_length=int(value["maxResponseLength"]),
                temperature=float(value["temperature"]),
                seed=int(value["seed"]),
                engine=_engine(str(value["engine"])),
                tensor_parallel_size=int(value["tensorParallelSize"]),
                memory_fraction=float(value["memoryFraction"]),
                judge=judge_of(value["judge"]),
                tie_margin=float(value["tieMargin"]),
                examples=int(value["examples"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"settings of the evaluation: {error!r}") from error


def side_of(value: Mapping[str, Any]) -> Side:
    match dict(value):
        case {"checkpoint": path}:
            return Side(str(path), is_checkpoint=True)
        case {"model": path}:
            return Side(str(path), is_checkpoint=False)
        case other:
            raise ValueError(f"candidate and baseline are a checkpoint or a model, not {other}")


def source_of(value: Mapping[str, Any]) -> PromptSource:
    category = value["categoryColumn"]
    return PromptSource(
        files=tuple(str(path) for path in value["files"]),
        format=Format(value["format"]),
        prompt_column=str(value["promptColumn"]),
        category_column=None if category is None else str(category),
    )


def _engine(name: str) -> Engine:
    """Of a training with SGLang, transformers answers: vLLM is not in its image."""
    return Engine.TRANSFORMERS if name == "SGLang" else Engine(name)


def judge_of(value: Mapping[str, Any]) -> Judge:
    match dict(value):
        case {"rewardModel": model}:
            most = model.get("maxLength")
            return RewardModelJudge(str(model["path"]), None if most is None else int(most))
        case {"terms": terms}:
            return _terms(terms)
        case {"endpoint": endpoint}:
            key = endpoint["apiKeyEnv"]
            return EndpointJudge(
                url=str(endpoint["url"]).rstrip("/"),
                model=str(endpoint["model"]),
                api_key_env=None if key is None else str(key),
                timeout_seconds=float(endpoint["timeoutSeconds"]),
                concurrency=int(endpoint["concurrency"]),
            )
        case other:
            raise ValueError(f"a judge is one of rewardModel, terms, endpoint, not {sorted(other)}")


def _terms(value: Sequence[Mapping[str, Any]]) -> TermsJudge:
    if not value:
        raise ValueError("judge.terms is empty")
    return TermsJudge(tuple(value))
