"""The model card: README.md, in the form that hubs read."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_LONGEST_CELL = 300


def render(facts: Mapping[str, Any], *, model: str, adapter: bool, dtype: str, parameters: int, checkpoint: str) -> str:
    """`facts` are shown whole: single values in one table, each mapping or list in a section of its own."""
    name = str(facts.get("job") or facts.get("name") or "model")
    own = {
        "baseModel": model,
        "checkpoint": checkpoint,
        "weights": f"{'LoRA adapter' if adapter else 'merged'}, {parameters:,} parameters in {dtype}",
    }
    single = {key: value for key, value in facts.items() if not isinstance(value, Mapping | list | tuple)}
    parts = [
        _front_matter(model, adapter),
        f"# {_cell(name)}",
        f"Trained from {_cell(model)} with PPOJob and verl.",
        _table(["", ""], [[_words(key), value] for key, value in (own | single).items()]),
    ]
    for key, value in facts.items():
        if isinstance(value, Mapping | list | tuple) and value:
            parts += [f"## {_words(key).capitalize()}", _section(value)]
    return "\n\n".join(parts) + "\n"


def _front_matter(model: str, adapter: bool) -> str:
    """JSON values are YAML, whatever is in them. A path is no model of a hub."""
    values: dict[str, Any] = {"library_name": "peft" if adapter else "transformers", "pipeline_tag": "text-generation"}
    if not model.startswith("/"):
        values["base_model"] = model
    values["tags"] = ["rlhf", "ppo", "verl"]
    lines = [f"{key}: {json.dumps(value)}" for key, value in values.items()]
    return "\n".join(["---", *lines, "---"])


def _section(value: Mapping[str, Any] | Sequence[Any]) -> str:
    if isinstance(value, Mapping):
        return _table(["", ""], [[_words(key), item] for key, item in value.items()])
    if all(isinstance(item, Mapping) for item in value):
        columns = list(dict.fromkeys(key for item in value for key in item))
        return _table(
            [_words(column) for column in columns], [[item.get(column) for column in columns] for item in value]
        )
    return "\n".join(f"- {_cell(item)}" for item in value)


def _table(head: list[str], rows: list[list[Any]]) -> str:
    lines = [head, ["---"] * len(head), *([_cell(item) for item in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Any) -> str:
    """On one line, without what Markdown or HTML would make something of."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    text = re.sub(r"([\\`*_|\[\]#])", r"\\\1", text)
    return text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…"


def _words(key: str) -> str:
    """`dataDigest` is "data digest"; names that are none of ours stay."""
    return _cell(re.sub(r"(?<=[a-z0-9])([A-Z])(?=[a-z])", lambda found: f" {found[1].lower()}", str(key)))
