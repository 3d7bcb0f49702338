"""Mistakes in the stages beside training that the API server refuses, and acceptance too.

Blocks of a spec; the field as acceptance names it; what the API server's message has in it.
"""

from typing import Any

ONE = {"name": "one", "recipe": "GSM8K", "files": ["/ppojob/storage/raw.jsonl"]}
TRAINED = {"model": "/models/tiny", "batchSize": 8}
PAIRS = {"name": "pairs", "recipe": "Pairs", "files": ["/ppojob/storage/pairs.jsonl"]}
EVALUATION = {"judge": {"term": "digits"}}
ENDPOINT = {"url": "https://judge.example/v1", "model": "judge"}

Wrong = tuple[dict[str, Any], str, tuple[str, ...]]


def source(**fields: Any) -> dict[str, Any]:
    return {"data": {"prepare": {"sources": [ONE | fields]}}}


def evaluation(**fields: Any) -> dict[str, Any]:
    return {"evaluation": EVALUATION | fields}


def prompts(**fields: Any) -> dict[str, Any]:
    return evaluation(prompts=[{"name": "own", "files": ["/p.parquet"]} | fields])


def terms(*items: dict[str, Any]) -> dict[str, Any]:
    return {"reward": {"terms": list(items)}, "data": {"prepare": {"sources": [ONE, PAIRS]}}}


WRONG: dict[str, Wrong] = {
    "no judge": (evaluation(judge={}), "spec.evaluation.judge", ("spec.evaluation.judge", "exactly one of term")),
    "two judges": (
        evaluation(judge={"term": "digits", "endpoint": ENDPOINT}),
        "spec.evaluation.judge",
        ("spec.evaluation.judge", "exactly one of term"),
    ),
    "a judge that is no term": (
        evaluation(judge={"term": "preference"}),
        "spec.evaluation.judge.term",
        ("spec.evaluation.judge.term", "name one of spec.reward.terms"),
    ),
    "two baselines": (
        evaluation(baseline={"step": 5, "path": "/m"}),
        "spec.evaluation.baseline",
        ("spec.evaluation.baseline", "set one of step, job, path"),
    ),
    "a gate that everything passes": (
        evaluation(gate={"minimumWinRate": 0}),
        "spec.evaluation.gate.minimumWinRate",
        ("spec.evaluation.gate.minimumWinRate", "greater than 0"),
    ),
    "a gate that nothing passes": (
        evaluation(gate={"minimumWinRate": 1}),
        "spec.evaluation.gate.minimumWinRate",
        ("spec.evaluation.gate.minimumWinRate", "less than 1"),
    ),
    "no prompts in the end": (
        evaluation(maxPrompts=0),
        "spec.evaluation.maxPrompts",
        ("spec.evaluation.maxPrompts", "greater than or equal to 1"),
    ),
    "prompts by a relative path": (
        prompts(files=["/p.parquet", "raw/q.parquet"]),
        "spec.evaluation.prompts[own].files[1]",
        ("spec.evaluation.prompts[0].files", "absolute paths"),
    ),
    "JSON read as Parquet": (
        prompts(files=["/q.jsonl"]),
        "spec.evaluation.prompts[own].format",
        ("spec.evaluation.prompts[0].format", "set format to JSONL or MTBench"),
    ),
    "packed JSON read as Parquet": (
        prompts(files=["/q.jsonl.gz"]),
        "spec.evaluation.prompts[own].format",
        ("spec.evaluation.prompts[0].format", "set format to JSONL or MTBench"),
    ),
    "an adapter of a whole model": (
        {"export": {"format": "Adapter"}},
        "spec.export.format",
        ("spec.export.format", "Adapter needs model.actor.lora"),
    ),
    "an export out of the claim": (
        {"export": {"path": "../one"}},
        "spec.export.path",
        ("spec.export.path", "should match"),
    ),
    "a function's recipe without one": (
        source(recipe="Function"),
        "spec.data.prepare.sources[one].function",
        ("spec.data.prepare.sources[0].function", "goes with recipe Function"),
    ),
    "a function without its recipe": (
        source(function={"configMap": "c"}),
        "spec.data.prepare.sources[one].function",
        ("spec.data.prepare.sources[0].function", "goes with recipe Function"),
    ),
    "a recipe for what it does not give": (
        source(use="Pairs"),
        "spec.data.prepare.sources[one].use",
        ("spec.data.prepare.sources[0].use", "gives prompts only"),
    ),
    "no rows": (
        source(maxRows=0),
        "spec.data.prepare.sources[one].maxRows",
        ("spec.data.prepare.sources[0].maxRows", "greater than or equal to 1"),
    ),
    "pairs alone": (
        {"data": {"prepare": {"sources": [PAIRS]}}},
        "spec.data.prepare.sources",
        ("spec.data.prepare.sources", "give prompts"),
    ),
    "prepared and given": (
        {"data": {"prepare": {"sources": [ONE]}, "train": ["/t.parquet"]}},
        "spec.data.prepare",
        ("spec.data.prepare", "either prepare"),
    ),
    "neither prepared nor given": ({"data": {}}, "spec.data.train", ("spec.data", "set train and validation")),
    "all is for validation": (
        {"data": {"prepare": {"sources": [ONE], "validationFraction": 1}}},
        "spec.data.prepare.validationFraction",
        ("spec.data.prepare.validationFraction", "less than 1"),
    ),
    "two reward models": (
        terms({"name": "a", "training": TRAINED}, {"name": "b", "training": TRAINED}),
        "spec.reward.terms",
        ("spec.reward.terms", "only one term can have training"),
    ),
    "pairs to train without held-out ones": (
        terms({"name": "a", "training": TRAINED | {"train": ["/pairs.parquet"]}}),
        "spec.reward.terms[a].training",
        ("spec.reward.terms[0].training", "train and validation, or neither"),
    ),
}
