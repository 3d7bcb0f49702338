"""What `spec.data.prepare` says, as the operator renders it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from ppojob_contract.preparation import USES, Hub, Recipe, Use


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function of the user's, in a file that is mounted from a ConfigMap."""

    path: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    name: str
    recipe: Recipe
    files: tuple[str, ...]
    """Absolute paths, or names of data sets in a hub."""
    hub: Hub
    configuration: str | None
    """Of a data set that has several."""
    split: str
    revision: str | None
    """None: the newest."""
    use: Use
    prompt_column: str
    answer_column: str
    ability: str | None
    max_rows: int | None
    """Rows that are read."""
    function: Function | None

    @property
    def prompts(self) -> bool:
        return self.use is not Use.PAIRS

    @property
    def pairs(self) -> bool:
        return self.use is not Use.PROMPTS

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        recipe, function = Recipe(value["recipe"]), value.get("function")
        return cls(
            name=value["name"],
            recipe=recipe,
            files=tuple(value["files"]),
            hub=Hub(value.get("hub") or Hub.HUGGING_FACE),
            configuration=value.get("configuration"),
            split=value.get("split") or "train",
            revision=value.get("revision"),
            use=Use(value.get("use") or USES[recipe]),
            prompt_column=value.get("promptColumn") or "prompt",
            answer_column=value.get("answerColumn") or "answer",
            ability=value.get("ability"),
            max_rows=value.get("maxRows"),
            function=Function(path=function["path"], name=function["name"]) if function else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareSettings:
    sources: tuple[Source, ...]
    validation_fraction: float
    validation_max_rows: int | None
    seed: int
    max_prompt_length: int
    """Tokens, with the chat template."""
    tokenizer: str
    trust_remote_code: bool
    max_bad_rows: int

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError for what is no such settings."""
        return cls(
            sources=tuple(Source.from_json(item) for item in value["sources"]),
            validation_fraction=float(value["validationFraction"]),
            validation_max_rows=value.get("validationMaxRows"),
            seed=int(value["seed"]),
            max_prompt_length=int(value["maxPromptLength"]),
            tokenizer=value["tokenizer"],
            trust_remote_code=bool(value.get("trustRemoteCode", False)),
            max_bad_rows=int(value.get("maxBadRows", 0)),
        )
