"""A real model on real data, on CPU: SmolLM2-135M-Instruct, GRPO on GSM8K rows; all stages. `make test-smollm2`."""

import json

import pytest
from tests.e2e.conftest import example
from tests.support.kube import Kube
from tests.support.pipeline import (
    figures_are_in_prometheus,
    fill_raw,
    outputs_are_whole,
    print_stages,
    the_exported_model_answers,
)
from tests.support.run import Run
from tests.support.smollm2 import DATA, prepare

from ppojob_contract.journal import RowKind
from ppojob_contract.manifest import NAME, Manifest, problems

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(not DATA.is_dir(), reason="the GSM8K rows are not beside the project"),
]


def test_smollm2(kube: Kube, namespace: str) -> None:
    run = Run.of(kube, namespace, example("smollm2-gsm8k-cpu"))
    run.apply_claim()
    prepare(run)
    run.apply()
    status = run.wait_for_end()
    assert (status["phase"], status["attempt"]["number"], status["progress"]["step"]) == ("Succeeded", 1, 3)
    rows = [row for row in run.journal(1) if row.kind is RowKind.STEP]
    for row in rows:
        print(json.dumps({"step": row.step} | dict(row.figures)))
    assert all(
        {"kl", "rewardMean", "rewardStd", "rewardGroupStd", "responseLengthMean"} <= set(row.figures) for row in rows
    )
    labels = f'namespace="{namespace}",ppojob="{run.name}"'
    for metric in ("ppojob_kl", "ppojob_reward_mean", 'ppojob_response_length_tokens{stat="mean"'):
        name, _, rest = metric.partition("{")
        query = f"last_over_time({name}{{{rest + ',' if rest else ''}{labels}}}[20m])"
        assert kube.values(query), query
    folder = run.layout.attempt(1).checkpoint(3)
    manifest = Manifest.from_json(json.loads((folder / NAME).read_text()))
    assert problems(folder, manifest) == []
    print(
        f"checkpoint of {manifest.size_bytes / 1e6:.0f} MB, {len(manifest.files)} files; step times "
        f"{[round(row.figures['stepSeconds'], 1) for row in rows]}"
    )


def test_smollm2_through_all_stages(kube: Kube, namespace: str) -> None:
    """Its figures are printed, not asserted: a hundred pairs and three steps teach a model little."""
    run = Run.of(kube, namespace, example("smollm2-pipeline-cpu"))
    run.apply_claim()
    fill_raw(run)
    prepare(run)
    run.apply()
    status = run.wait_for_end(seconds=3000)
    print_stages(run)
    assert (status["phase"], status["attempt"]["number"], status["progress"]["step"]) == ("Succeeded", 1, 3), status
    outputs_are_whole(run)
    figures_are_in_prometheus(run)
    the_exported_model_answers(run)
