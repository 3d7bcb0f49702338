"""What the operator tells each stage, the stage's own program reads: of a whole job, with each kind of judge."""

from typing import Any

import pytest
from tests.support.builders import raw_spec
from tests.support.drive import Drive
from tests.support.fake_stages import Doing, FakeStages
from tests.support.scripts import healthy
from tests.support.world import World

from ppojob_contract.stages import Stage
from ppojob_trainer.stages.evaluate.settings import EvaluateSettings
from ppojob_trainer.stages.export.settings import ExportSettings
from ppojob_trainer.stages.prepare.settings import PrepareSettings
from ppojob_trainer.stages.reward.settings import RewardSettings

READERS: dict[Stage, Any] = {
    Stage.PREPARE: PrepareSettings,
    Stage.REWARD: RewardSettings,
    Stage.EVALUATE: EvaluateSettings,
    Stage.EXPORT: ExportSettings,
}

SOURCES = [
    {"name": "math", "recipe": "GSM8K", "files": ["/ppojob/storage/raw/gsm8k.jsonl"], "maxRows": 100},
    {"name": "hh", "recipe": "HHRLHF", "files": ["Anthropic/hh-rlhf"], "hub": "ModelScope"},
    {"name": "own", "recipe": "Function", "files": ["/raw/a.parquet"], "function": {"configMap": "convert"}},
    {"name": "pairs", "recipe": "Pairs", "files": ["/raw/pairs.jsonl"]},
    {"name": "prompts", "recipe": "Prompts", "files": ["/raw/p.jsonl"], "promptColumn": "q", "ability": "chat"},
]
TERMS = [
    {"name": "preference", "training": {"model": "/models/tiny", "batchSize": 8, "lora": {}, "minimumAccuracy": 0.5}},
    {"name": "answer", "rule": {"type": "GSM8K"}},
    {"name": "own", "function": {"configMap": "rewards"}},
    {"name": "given", "model": {"path": "/models/reward"}},
]
PROMPTS = [{"name": "mt-bench", "files": ["/raw/q.jsonl"], "format": "MTBench"}, {"name": "own", "files": ["/p"]}]
JUDGES: list[dict[str, Any]] = [
    {"term": "preference"},
    {"term": "answer"},
    {"term": "own"},
    {"term": "given"},
    {"rewardModel": {"path": "/models/judge", "maxLength": 512}},
    {"endpoint": {"url": "https://judge.example/v1", "model": "judge", "apiKeySecret": {"name": "judge"}}},
]


def measured(_stage: Stage, _run: int) -> Doing:
    return Doing(figures={"validationAccuracy": 0.9})


@pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: "-".join([*judge, *map(str, judge.values())])[:24])
@pytest.mark.parametrize("baseline", [{}, {"step": 2}, {"path": "/models/other"}])
async def test_every_stage_reads_what_it_is_told(judge: dict[str, Any], baseline: dict[str, Any]) -> None:
    spec = raw_spec(
        data={"prepare": {"sources": SOURCES}},
        reward={"terms": TERMS},
        evaluation={"judge": judge, "baseline": baseline, "prompts": PROMPTS},
        export={"dataType": "BFloat16", "path": "exports/one"},
        training=raw_spec()["training"] | {"totalSteps": 4},
        checkpoints={"everySteps": 2, "confirmSteps": 1},
    )
    world = await Drive(World(healthy, spec=spec, stages=FakeStages(measured))).to_the_end()
    assert world.status["phase"] == "Succeeded"
    assert [run.config.stage for run in world.stages.runs] == list(Stage)
    told = {run.config.stage: run.config.settings for run in world.stages.runs}
    for stage, settings in told.items():
        READERS[stage].from_json(settings)
    before = world.attempts[1].config.afterwards
    evaluate, export = before["Evaluate"], before["Export"]
    assert {name: evaluate[name] for name in ("prompts", "judge")} == {
        name: told[Stage.EVALUATE][name] for name in ("prompts", "judge")
    }
    assert evaluate["baseline"] == (told[Stage.EVALUATE]["baseline"] if "path" in baseline else None)
    assert export["target"] == told[Stage.EXPORT]["target"]
