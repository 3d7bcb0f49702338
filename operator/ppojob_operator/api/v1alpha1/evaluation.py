"""`PPOJob.spec.evaluation` and `.export`: what happens with the trained model."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from ppojob_operator.api.v1alpha1.base import (
    Count,
    Model,
    Name,
    NonNegative,
    ObjectName,
    Path,
    Seconds,
    Text,
    list_map,
    rules,
)


class PromptFormat(StrEnum):
    """How a file of prompts is read."""

    PARQUET = "Parquet"
    MT_BENCH = "MTBench"
    JSONL = "JSONL"


class EvaluationPrompts(Model):
    """A set of prompts."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("self.files.all(file, file.startsWith('/'))", "files are absolute paths in the trainer's pods", ".files"),
            (
                "self.format != 'Parquet' || !self.files.exists(file, file.matches('[.](jsonl?|gz)$'))",
                "format Parquet, the default, reads no JSON: set format to JSONL or MTBench",
                ".format",
            ),
        )
    )
    name: Name = Field(description="In messages about this set")
    files: Annotated[list[Path], Field(min_length=1, max_length=64)] = Field(description="Paths in the trainer's pods")
    format: PromptFormat = Field(
        default=PromptFormat.PARQUET, description="Parquet with verl's columns, MT-Bench's questions, or JSON lines"
    )
    prompt_column: Text = Field(default="prompt", description="Of JSON lines")
    category_column: Text | None = Field(default=None, description="Wins are counted by it too, where set")


class Baseline(Model):
    """What the trained model is compared with; nothing set: the reference."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("[has(self.step), has(self.job), has(self.path)].filter(x, x).size() <= 1", "set one of step, job, path"),
        )
    )
    step: Count | None = Field(default=None, description="This job's checkpoint of that step")
    job: ObjectName | None = Field(default=None, description="Newest confirmed checkpoint of another PPOJob")
    path: Path | None = Field(default=None, description="A model's folder, or a checkpoint's (global_step_N)")


class SecretKey(Model):
    """A key of a Secret in the job's namespace."""

    name: ObjectName = Field(description="The Secret")
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")] = Field(
        default="apiKey", description="Its key"
    )


class JudgeEndpoint(Model):
    """An OpenAI-compatible server."""

    url: Annotated[str, Field(max_length=1024, pattern=r"^https?://[^\s$@?#]+$")] = Field(
        description="Up to and with the version, as in https://judge.example/v1; without a user or a query"
    )
    model: Text = Field(description="Its name of the judging model")
    api_key_secret: SecretKey | None = Field(default=None, description="Bearer token; kept in the pods' environment")
    timeout_seconds: Seconds = Field(default=60, description="For one answer")
    concurrency: Annotated[int, Field(ge=1, le=256)] = Field(default=8, description="Questions asked at once")


class JudgeModel(Model):
    """A reward model that judges."""

    path: Path = Field(description="Its folder in the trainer's pods")
    max_length: Annotated[int, Field(ge=16, le=1_048_576)] | None = Field(
        default=None, description="Tokens that it reads at most, of what is longer the end; default: all that it can"
    )


class Judge(Model):
    """Who says which answer is better."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "[has(self.term), has(self.rewardModel), has(self.endpoint)].filter(x, x).size() == 1",
                "set exactly one of term, rewardModel, endpoint",
            ),
        )
    )
    term: Name | None = Field(default=None, description="One of spec.reward.terms, by name")
    reward_model: JudgeModel | None = Field(default=None, description="A reward model")
    endpoint: JudgeEndpoint | None = Field(default=None, description="An OpenAI-compatible server")


class GateBound(StrEnum):
    """Which figure has to reach the gate."""

    ESTIMATE = "Estimate"
    LOWER_BOUND = "LowerBound"


class Gate(Model):
    """What the result must reach for the job to succeed."""

    minimum_win_rate: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.5, description="The rate must be above it; ties count half, so a model like the baseline has 0.5"
    )
    bound: GateBound = Field(
        default=GateBound.ESTIMATE, description="The win rate itself, or the lower end of its 95 % interval"
    )


class Evaluation(Model):
    """The trained model against another one, a stage of its own after training."""

    prompts: Annotated[list[EvaluationPrompts], Field(max_length=16, json_schema_extra=list_map("name"))] = Field(
        default_factory=list, description="Default: the validation prompts"
    )
    baseline: Baseline = Field(default_factory=Baseline, description="Default: the reference")
    judge: Judge = Field(description="Who says which answer is better")
    max_prompts: Count = Field(default=200, description="In all, chosen by data.seed")
    temperature: NonNegative = Field(default=0.0, description="Of both models' answers; 0 is greedy")
    tie_margin: NonNegative = Field(default=0.0, description="Scores that differ by no more are a tie")
    examples: Annotated[int, Field(ge=0, le=100)] = Field(default=10, description="Answers shown in the report")
    gate: Gate | None = Field(default=None, description="Fail the job where the trained model does not win")


class ExportFormat(StrEnum):
    """What is written."""

    MERGED = "Merged"
    ADAPTER = "Adapter"


class ExportType(StrEnum):
    """Number format of the weights."""

    BFLOAT16 = "BFloat16"
    FLOAT32 = "Float32"


class Export(Model):
    """Hugging Face weights of the trained model, a stage of its own at the end."""

    format: ExportFormat = Field(
        default=ExportFormat.MERGED, description="Merged: the whole model; Adapter: of LoRA, the adapter alone"
    )
    data_type: ExportType | None = Field(default=None, description="Default: as trained")
    path: (
        Annotated[
            str,
            Field(min_length=1, max_length=512, pattern=r"^[A-Za-z0-9][-._A-Za-z0-9]*(/[A-Za-z0-9][-._A-Za-z0-9]*)*$"),
        ]
        | None
    ) = Field(
        default=None, description="Folder on the volume, relative; never overwritten. Default: in the job's own folder"
    )


_BY_A_TERM = "has(self.evaluation) && has(self.evaluation.judge.term)"

RULES_OF_SPEC = (
    (
        f"!({_BY_A_TERM}) || self.reward.terms.exists(item, item.name == self.evaluation.judge.term)",
        "name one of spec.reward.terms",
        ".evaluation.judge.term",
    ),
    (
        "!has(self.export) || self.export.format != 'Adapter' || has(self.model.actor.lora)",
        "Adapter needs model.actor.lora; use Merged",
        ".export.format",
    ),
)
"""What these blocks ask of others."""
