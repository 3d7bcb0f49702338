"""The model card as the trainer writes it of what the operator tells it."""

from typing import Any

from tests.support.drive import Drive
from tests.support.fake_stages import FakeStages
from tests.support.scripts import runs_away
from tests.support.world import World
from tests.unit.controller.test_stages import PIPELINE, figures
from tests.unit.controller.test_story import GUARDED

from ppojob_contract.stages import Stage
from ppojob_trainer.stages.export import card

OWN: dict[str, Any] = {"adapter": False, "dtype": "bfloat16", "parameters": 1, "checkpoint": "/c/global_step_30"}


async def written(spec: dict[str, Any]) -> list[str]:
    """Lines of the card of a job that is run to its end."""
    seen = await Drive(World(runs_away(18), spec=spec, stages=FakeStages(figures))).to_the_end()
    (export,) = (run.config.settings for run in seen.stages.runs if run.config.stage is Stage.EXPORT)
    return card.render(export["card"], model=export["model"], **OWN).splitlines()


async def test_the_card_of_a_run_with_a_rollback() -> None:
    lines = await written(PIPELINE | {key: GUARDED[key] for key in ("guardrails", "rollback", "training")})
    for line in (
        "| kl coefficient | 0.001 |",
        "| kl placement | Reward |",
        "| max prompt length | 512 |",
        "| max response length | 256 |",
        "| rollbacks | 1 |",
        "## Data",
        "| source | recipe | files | revision |",
        "| math | GSM8K | /ppojob/storage/raw/gsm8k.jsonl |  |",
        "| hh | HHRLHF | /ppojob/storage/raw/hh.jsonl.gz |  |",
        "## Guardrails",
        "- kl: Rollback",
        "## Attempts",
        "| number | began | last step | ended | why |",
        "## Evaluation",
        "| win rate | 0.7 |",
    ):
        assert line in lines, line
    attempts = [line for line in lines if line.startswith(("| 1 | ", "| 2 | "))]
    assert attempts[0].startswith("| 1 | the beginning | ")
    assert "| RolledBack | guardrail kl: kl was 0.9 at step 20" in attempts[0]
    assert attempts[1].startswith("| 2 | attempt 1, step ")
    assert "| Succeeded |" in attempts[1]


async def test_files_that_nobody_prepared_are_named() -> None:
    spec = GUARDED | {"export": {}}
    lines = await written(spec)
    assert f"| train | {', '.join(GUARDED['data']['train'])} |" in lines
