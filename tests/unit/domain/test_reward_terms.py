"""Reward terms on their way to the trainer."""

from typing import Any

from tests.support.builders import spec

from ppojob_operator.domain.reward_terms import told_term


def rendered(item: dict[str, Any], **blocks: Any) -> dict[str, Any]:
    whole = spec(reward={"terms": [{"name": "t", **item}], "timeoutSeconds": 7}, **blocks)
    return told_term(whole.reward.terms[0], whole)


def test_a_rule() -> None:
    assert rendered({"weight": 0.5, "rule": {"type": "GSM8K", "format": "Strict"}}) == {
        "name": "t",
        "weight": 0.5,
        "rule": {"type": "GSM8K", "format": "Strict"},
    }


def test_a_length_is_compared_with_the_longest_response() -> None:
    found = rendered(
        {"rule": {"type": "Overlong", "bufferTokens": 8}},
        data={"train": ["/t"], "validation": ["/v"], "maxResponseLength": 64},
    )
    assert found["rule"] == {"type": "Overlong", "bufferTokens": 8, "maxTokens": 64}


def test_a_function_has_a_path_in_the_pods_and_a_deadline() -> None:
    found = rendered({"function": {"configMap": "mine", "key": "my.py", "name": "judge"}})["function"]
    assert found["path"].startswith("/ppojob/functions/")
    assert found["path"].endswith("/my.py")
    assert (found["name"], found["timeoutSeconds"]) == ("judge", 7)


def test_a_model_on_cpu_and_in_the_rollouts_engine() -> None:
    data = {"train": ["/t"], "validation": ["/v"], "maxPromptLength": 100, "maxResponseLength": 50}
    on_cpu = rendered({"model": {"path": "/m"}}, data=data)["model"]
    assert (on_cpu["engine"], on_cpu["maxLength"], on_cpu["trustRemoteCode"]) == ("Transformers", 406, False)
    gpus = {"device": "NvidiaGPU"}
    served = rendered({"model": {"path": "/m"}}, cluster=gpus)["model"]
    assert (served["engine"], served["tensorParallelSize"], served["memoryFraction"]) == ("VLLM", 1, 0.3)
    assert (
        rendered({"model": {"path": "/m"}}, cluster=gpus, rollout={"engine": "SGLang"})["model"]["engine"] == "SGLang"
    )
    chosen = {"path": "/m", "engine": "Transformers", "maxLength": 99}
    assert rendered({"model": chosen}, cluster=gpus)["model"]["engine"] == "Transformers"
    assert rendered({"model": chosen}, cluster=gpus)["model"]["maxLength"] == 99
