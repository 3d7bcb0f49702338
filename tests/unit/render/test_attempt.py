"""The RayJob of an attempt and what it tells the trainer."""

import json
from typing import Any

import pytest
import yaml
from tests.support.builders import UID, spec

from ppojob_contract.attempt import AttemptConfig
from ppojob_contract.names import ENV_ATTEMPT
from ppojob_operator.api.v1alpha1.status import ParameterValue, ResumePoint
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.render.rayjob import attempt_config, render_attempt
from ppojob_operator.render.verl import overrides


def render(attempt: int = 1, resume: ResumePoint | None = None, **blocks: Any) -> dict[str, Any]:
    adjustment = ParameterValue.model_validate({"parameter": "ClipRatio", "value": 0.1, "specValue": 0.2})
    return render_attempt(
        accepted(**blocks),
        cluster_number=2,
        attempt=attempt,
        resume=resume,
        adjustments=[adjustment],
    )


def accepted(**blocks: Any) -> AcceptedJob:
    return AcceptedJob(namespace="ns", name="job", uid=UID, generation=1, spec=spec(**blocks))


def told(rendered: dict[str, Any]) -> AttemptConfig:
    """As the trainer reads it."""
    environment = yaml.safe_load(rendered["spec"]["runtimeEnvYAML"])
    return AttemptConfig.from_json(json.loads(environment["env_vars"][ENV_ATTEMPT]))


def test_what_is_told_arrives() -> None:
    rendered = render(3, ResumePoint(attempt=1, step=10))
    config = told(rendered)
    assert config == attempt_config(
        accepted(),
        attempt=3,
        resume=ResumePoint(attempt=1, step=10),
        adjustments=[ParameterValue.model_validate({"parameter": "ClipRatio", "value": 0.1, "specValue": 0.2})],
    )
    assert config.settings == {"ClipRatio": 0.1}
    assert config.resume is not None
    assert (config.resume.checkpoint.attempt, config.resume.checkpoint.step) == (1, 10)
    assert config.root == "/ppojob/storage/ns/job-0a1b2c3d"


def test_no_text_of_the_user_is_expanded_on_the_way() -> None:
    """Ray replaces $NAME in environment variables of a job."""
    pattern = "^${HOME}$ \U0001f600 \\d"
    terms = [{"name": "r", "rule": {"type": "Regex", "pattern": pattern}}]
    rendered = render(reward={"terms": terms})
    assert "$" not in rendered["spec"]["runtimeEnvYAML"]
    assert rendered["spec"]["runtimeEnvYAML"].isascii()
    assert told(rendered).reward_terms[0]["rule"]["pattern"] == pattern


def test_kuberay_neither_retries_nor_deletes() -> None:
    job = render()["spec"]
    assert job["backoffLimit"] == 0
    assert job["shutdownAfterJobFinishes"] is False
    assert "ttlSecondsAfterFinished" not in job
    assert job["clusterSelector"] == {"ray.io/cluster": "job-0a1b2-c2"}
    assert job["submissionMode"] == "HTTPMode"


@pytest.mark.parametrize(("verify", "checksums"), [({}, False), ({"verify": "Checksums"}, True)])
def test_how_checkpoints_are_verified(verify: dict[str, str], checksums: bool) -> None:
    assert told(render(checkpoints=verify)).checksums is checksums


def test_a_folder_on_the_claim() -> None:
    config = told(render(storage={"claimName": "c", "path": "a/b"}))
    assert config.root == "/ppojob/storage/a/b/ns/job-0a1b2c3d"


def test_a_function_is_told_by_its_path() -> None:
    terms = [{"name": "mine", "weight": 0.5, "function": {"configMap": "rewards", "key": "r.py", "name": "f"}}]
    function = {"path": "/ppojob/functions/mine/r.py", "name": "f", "timeoutSeconds": 30}
    expected = {"name": "mine", "weight": 0.5, "function": function}
    assert told(render(reward={"terms": terms})).reward_terms == [expected]


def test_validation_before_the_start_is_of_the_first_attempt() -> None:
    training = {"totalSteps": 30, "validateBeforeStart": True}
    assert overrides(spec(training=training), first_attempt=True)["trainer.val_before_train"] is True
    assert overrides(spec(training=training), first_attempt=False)["trainer.val_before_train"] is False


A = "actor_rollout_ref"


def test_kl_is_placed_where_the_estimator_expects_it() -> None:
    gae = overrides(spec(), first_attempt=True)
    assert (gae["algorithm.use_kl_in_reward"], gae[f"{A}.actor.use_kl_loss"]) == (True, False)
    assert gae["algorithm.kl_penalty"] == "kl"
    grpo = overrides(spec(algorithm={"estimator": "GRPO"}), first_attempt=True)
    assert (grpo["algorithm.use_kl_in_reward"], grpo[f"{A}.actor.use_kl_loss"]) == (False, True)
    assert grpo[f"{A}.actor.kl_loss_type"] == "low_var_kl"
    assert not any(key.startswith("critic.") for key in grpo)


def test_a_reference_for_the_figure_alone_weighs_nothing() -> None:
    keys = overrides(spec(algorithm={"kl": {"placement": "None"}}), first_attempt=True)
    assert (keys[f"{A}.actor.use_kl_loss"], keys[f"{A}.actor.kl_loss_coef"]) == (True, 0.0)
    without = overrides(spec(algorithm={"kl": {"placement": "None", "monitor": False}}), first_attempt=True)
    assert without[f"{A}.actor.use_kl_loss"] is False
    assert f"{A}.ref.log_prob_micro_batch_size_per_gpu" not in without


def test_both_clips_are_set() -> None:
    """verl's loss reads low and high, not clip_ratio."""
    keys = overrides(spec(algorithm={"clipRatio": 0.1, "clipRatioHigh": 0.28}), first_attempt=True)
    assert [keys[f"{A}.actor.clip_ratio{end}"] for end in ("", "_low", "_high")] == [0.1, 0.1, 0.28]


def test_all_linear_layers_are_a_word() -> None:
    keys = overrides(spec(model={"actor": {"path": "/m", "lora": {}}}), first_attempt=True)
    assert keys[f"{A}.model.target_modules"] == "all-linear"


def test_overrides_keep_their_type() -> None:
    items = [{"key": "data.truncation", "value": "left"}, {"key": "a.b", "value": 1}, {"key": "c", "value": True}]
    keys = overrides(spec(trainer={"overrides": items}), first_attempt=True)
    assert [keys["data.truncation"], keys["a.b"], keys["c"]] == ["left", 1, True]
    assert isinstance(keys["c"], bool)
