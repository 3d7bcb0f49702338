"""What each example becomes, word for word: a change here is a change of what users' jobs run as."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.examples import NAMES, accepted

from ppojob_contract.names import ENV_ATTEMPT, ENV_STAGE
from ppojob_contract.parameters import Parameter
from ppojob_operator.api.v1alpha1.status import ParameterValue, ResumePoint
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.pipeline.settings import Work, prepare_work, reward_work
from ppojob_operator.render.raycluster import render_cluster
from ppojob_operator.render.rayjob import render_attempt
from ppojob_operator.render.secret import render_token_secret
from ppojob_operator.render.settings import RenderSettings
from ppojob_operator.render.stages import render_stage

FOLDER = Path(__file__).parent
SETTINGS = RenderSettings()


@pytest.mark.parametrize("name", NAMES)
def test_what_is_rendered(name: str, request: pytest.FixtureRequest) -> None:
    text = yaml.safe_dump_all(_rendered(accepted(name)), sort_keys=False, width=120)
    golden = FOLDER / f"{name}.yaml"
    if request.config.getoption("--update-golden", default=False):
        golden.write_text(text, encoding="utf-8")
    assert golden.is_file(), "no golden file: make golden"
    assert text == golden.read_text(encoding="utf-8"), "rendering changed: if it is meant, make golden and commit"


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(NAMES)


def _rendered(job: AcceptedJob) -> list[dict[str, Any]]:
    first = _attempt(job, 1, None, ())
    adjusted = ParameterValue(parameter=Parameter.LEARNING_RATE, value=2e-4, spec_value=2e-3)
    second = _attempt(job, 2, ResumePoint(attempt=1, step=5), (adjusted,))
    works = (prepare_work(job), reward_work(job))
    return [
        render_token_secret(job, "secret"),
        render_cluster(job, 1, SETTINGS),
        *(_stage(job, work) for work in works if work is not None),
        first,
        second,
    ]


def _stage(job: AcceptedJob, work: Work) -> dict[str, Any]:
    rendered = render_stage(job, cluster_number=1, stage=work.stage, run=1, key=work.key, settings=work.settings)
    environment = yaml.safe_load(rendered["spec"].pop("runtimeEnvYAML"))
    return {**rendered, ENV_STAGE: json.loads(environment["env_vars"][ENV_STAGE])}


def _attempt(
    job: AcceptedJob, attempt: int, resume: ResumePoint | None, adjustments: tuple[ParameterValue, ...]
) -> dict[str, Any]:
    """With the attempt's configuration as data, so that a difference can be read."""
    rendered = render_attempt(job, cluster_number=1, attempt=attempt, resume=resume, adjustments=adjustments)
    environment = yaml.safe_load(rendered["spec"].pop("runtimeEnvYAML"))
    return {**rendered, ENV_ATTEMPT: json.loads(environment["env_vars"][ENV_ATTEMPT])}
