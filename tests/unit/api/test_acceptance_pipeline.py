"""Stages beside training that cannot be carried out are refused with the field and the fix."""

from typing import Any

import pytest
from tests.support.builders import raw_spec
from tests.support.wrong_pipelines import ONE, PAIRS, TRAINED, WRONG, evaluation, source, terms

from ppojob_operator.domain.acceptance import judge


def problems(**blocks: Any) -> dict[str, str]:
    return {problem.field: problem.message for problem in judge(raw_spec(**blocks))[1]}


@pytest.mark.parametrize("name", WRONG)
def test_what_the_api_server_refuses_is_refused_here_too(name: str) -> None:
    blocks, field, _ = WRONG[name]
    assert field in problems(**blocks)


@pytest.mark.parametrize(
    ("blocks", "field", "fix"),
    [
        (source(files=["raw.jsonl"]), "spec.data.prepare.sources[one].files[0]", "must be an absolute path"),
        (
            {"reward": {"terms": [{"name": "a", "training": TRAINED}]}, "data": {"prepare": {"sources": [ONE]}}},
            "spec.reward.terms[a].training.train",
            "no source of spec.data.prepare gives pairs",
        ),
        (
            terms({"name": "a", "training": TRAINED | {"batchSize": 7}})
            | {"cluster": {"device": "CPU", "devicesPerNode": 2}},
            "spec.reward.terms[a].training.batchSize",
            "multiple of the 2 devices",
        ),
        (
            terms({"name": "a", "training": TRAINED | {"scoring": {"memoryFraction": 0.5}}}),
            "spec.reward.terms[a].training.scoring.memoryFraction",
            "goes with engine VLLM or SGLang only",
        ),
        (
            terms({"name": "a", "training": TRAINED | {"scoring": {"engine": "VLLM"}}}),
            "spec.reward.terms[a].training.scoring.engine",
            "goes with accelerators only",
        ),
        (
            terms({"name": "a", "training": TRAINED | {"model": "org/base"}}),
            "spec.reward.terms[a].training.model",
            "is a hub name, and the image for CPU asks no hub",
        ),
        (
            evaluation(judge={"rewardModel": {"path": "org/judge"}}),
            "spec.evaluation.judge.rewardModel.path",
            "is a hub name, and the image for CPU asks no hub",
        ),
        (evaluation(baseline={"path": "org/base"}), "spec.evaluation.baseline.path", "is a hub name"),
        (evaluation(baseline={"step": 7}), "spec.evaluation.baseline.step", "every 5 steps up to 30"),
        (evaluation(baseline={"step": 35}), "spec.evaluation.baseline.step", "every 5 steps up to 30"),
    ],
)
def test_what_only_the_operator_can_know(blocks: dict[str, Any], field: str, fix: str) -> None:
    assert fix in problems(**blocks)[field]


def test_a_whole_pipeline_is_accepted() -> None:
    blocks = terms({"name": "a", "training": TRAINED})
    assert PAIRS in blocks["data"]["prepare"]["sources"]
    given = {"prompts": [{"name": "own", "files": ["/q.jsonl"], "format": "MTBench"}], "judge": {"term": "a"}}
    assert problems(**blocks, evaluation=given, export={"path": "exports/one"}, trial={}) == {}
