"""Specs that cannot work: each is refused with the field and the fix. `bad` lays changes over a valid spec."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.builders import UID, raw_guardrail, raw_spec

from ppojob_operator.api.v1alpha1.resource import PPOJob
from ppojob_operator.api.v1alpha1.spec import Device
from ppojob_operator.api.v1alpha1.status import PPOJobStatus
from ppojob_operator.domain.acceptance import accept, judge


def problems(**blocks: Any) -> dict[str, str]:
    _, found, _ = judge(raw_spec(**blocks))
    return {problem.field: problem.message for problem in found}


def training(**fields: Any) -> dict[str, Any]:
    return {**raw_spec()["training"], **fields}


def data(**fields: Any) -> dict[str, Any]:
    return {**raw_spec()["data"], **fields}


def guardrails(metric: str = "kl", **fields: Any) -> list[dict[str, Any]]:
    return [raw_guardrail(conditions=[{"metric": metric, "above": 0.2} | fields])]


def term(**fields: Any) -> dict[str, Any]:
    return {"terms": [{"name": "r"} | fields]}


def overriding(key: str, value: Any = 1) -> dict[str, Any]:
    return {"overrides": [{"key": key, "value": value}]}


def adjusting(**fields: Any) -> dict[str, Any]:
    return {"adjust": [{"parameter": "LearningRate", "multiply": 0.5} | fields]}


def pods(**fields: Any) -> dict[str, Any]:
    return {"device": "CPU", "podTemplate": fields}


def limited(block: str, **resources: tuple[Any, Any]) -> dict[str, Any]:
    """Requests and limits by the resource's name."""
    requests, limits = ({name: pair[part] for name, pair in resources.items()} for part in (0, 1))
    return {"device": "CPU", block: {"requests": requests, "limits": limits}}


def container(name: str = "ray", **resources: Any) -> dict[str, Any]:
    return {"name": name, "resources": resources}


CONDITION = "spec.guardrails[kl].conditions[0]"
TERM = "spec.reward.terms[r]"
GPUS = {"device": "NvidiaGPU", "devicesPerNode": 2}
ADJUST = "spec.rollback.adjust[LearningRate]"
TEMPLATE = "spec.cluster.podTemplate"
HUB = {"actor": {"path": "Qwen/Qwen2.5-0.5B"}}

REFUSED: list[tuple[dict[str, Any], str, str]] = [
    # what the schema says, too
    ({"model": {}}, "spec.model.actor", "required"),
    ({"colour": "red"}, "spec.colour", "not a field"),
    ({"training": training(totalSteps=0)}, "spec.training.totalSteps", "greater than or equal to 1"),
    ({"guardrails": [raw_guardrail(forSteps="x")]}, "spec.guardrails[kl].forSteps", "integer"),
    ({"storage": {"claimName": ""}}, "spec.storage.claimName", "at least 1"),
    ({"trainer": overriding("data.x", [1])}, "spec.trainer.overrides[data.x].value", "scalar"),
    ({"trainer": overriding("data.x", "y" * 5000)}, "spec.trainer.overrides[data.x].value", "scalar"),
    ({"cluster": {"sharedMemory": "ten"}}, "spec.cluster.sharedMemory", "pattern"),
    ({"guardrails": [raw_guardrail(), raw_guardrail()]}, "spec.guardrails[kl]", "more than once"),
    # models
    ({"model": {"actor": {"path": "Qwen/Qwen2.5-0.5B"}}}, "spec.model.actor.path", "asks no hub"),
    ({"model": {"actor": {"path": "/m"}, "critic": {"path": "Qwen/Q"}}}, "spec.model.critic.path", "HF_HUB_OFFLINE"),
    # guardrails
    ({"guardrails": [raw_guardrail(conditions=[{"metric": "kl"}])]}, CONDITION, "no threshold"),
    (
        {"guardrails": guardrails("reward_term/digit")},
        f"{CONDITION}.metric",
        "no reward term is called so; there are digits",
    ),
    ({"guardrails": [{"name": "kl"}]}, "spec.guardrails[kl]", "preset, or conditions"),
    ({"guardrails": [raw_guardrail(failing={"count": 1, "of": 2})]}, "spec.guardrails[kl].failing", "not both"),
    (
        {"guardrails": [{"name": "kl", "preset": "KLRunaway", "failing": {"count": 3, "of": 2}}]},
        "spec.guardrails[kl].failing.count",
        "must not exceed",
    ),
    ({"guardrails": guardrails(promql="up")}, CONDITION, "exactly one of metric and promql"),
    ({"guardrails": guardrails(metric=None, promql="up")}, f"{CONDITION}.promql", "prometheus.url"),
    ({"guardrails": guardrails(ratio=2)}, f"{CONDITION}.ratio", "relativeTo"),
    ({"guardrails": guardrails(bad="Below")}, f"{CONDITION}.bad", "relativeTo"),
    ({"guardrails": guardrails(relativeTo="Best", ratio=2)}, f"{CONDITION}.above", "second condition"),
    ({"guardrails": guardrails(above=None, relativeTo="Best")}, CONDITION, "exactly one of ratio and by"),
    ({"guardrails": guardrails(above=None, relativeTo="Best", ratio=1)}, f"{CONDITION}.ratio", "not 1"),
    ({"guardrails": guardrails(above=None, relativeTo="Best", by=0)}, f"{CONDITION}.by", "not be 0"),
    (
        {
            "guardrails": [{"name": "critic", "preset": "ValueDivergence"}],
            "algorithm": {"estimator": "ReinforcePlusPlus"},
        },
        "spec.guardrails[critic].preset",
        "valueLoss can never exist",
    ),
    (
        {"guardrails": [{"name": "hacked", "preset": "RewardHacking"}]},
        "spec.guardrails[hacked].preset",
        "spec.training.validateEverySteps",
    ),
    (
        {"guardrails": [{"name": "kl", "preset": "KLRunaway"}], "algorithm": {"kl": {"control": "Adaptive"}}},
        "spec.guardrails[kl].preset",
        "spec.algorithm.kl.target",
    ),
    (
        {"guardrails": [{"name": "n", "preset": "NonFinite", "conditions": [{"metric": "kl", "above": 1}]}]},
        "spec.guardrails[n].conditions[0].metric",
        "none about kl",
    ),
    (
        {"guardrails": [{"name": "n", "preset": "NonFinite"}, raw_guardrail(name="n-reward")]},
        "spec.guardrails",
        "come to the name n-reward",
    ),
    ({"guardrails": guardrails(above=1, below=2)}, f"{CONDITION}.below", "above"),
    ({"guardrails": guardrails("kll")}, f"{CONDITION}.metric", "did you mean kl?"),
    ({"guardrails": guardrails("KL")}, f"{CONDITION}.metric", "did you mean kl?"),
    ({"guardrails": guardrails("reward_mean")}, f"{CONDITION}.metric", "did you mean rewardMean?"),
    ({"guardrails": guardrails("zzz")}, f"{CONDITION}.metric", "docs/figures.md"),
    (
        {"guardrails": guardrails(), "algorithm": {"kl": {"placement": "None", "monitor": False}}},
        f"{CONDITION}.metric",
        "spec.algorithm.kl.monitor",
    ),
    (
        {"guardrails": guardrails("valueLoss"), "algorithm": {"estimator": "ReinforcePlusPlus"}},
        f"{CONDITION}.metric",
        "spec.algorithm.estimator GAE",
    ),
    ({"guardrails": guardrails("validationReward")}, f"{CONDITION}.metric", "spec.training.validateEverySteps"),
    ({"guardrails": guardrails("rewardGroupStd")}, f"{CONDITION}.metric", "spec.rollout.samplesPerPrompt"),
    ({"guardrails": guardrails("deviceMemoryFraction")}, f"{CONDITION}.metric", "spec.cluster.device"),
    (
        {"guardrails": guardrails(above=0.1), "algorithm": {"kl": {"control": "Adaptive"}}},
        f"{CONDITION}.above",
        "spec.algorithm.kl.target",
    ),
    # rollback
    ({"rollback": adjusting(set=1.0e-6)}, ADJUST, "exactly one"),
    ({"rollback": {"adjust": [{"parameter": "LearningRate"}]}}, ADJUST, "exactly one"),
    ({"rollback": adjusting(min=2, max=1)}, f"{ADJUST}.min", "max"),
    ({"rollback": adjusting(multiply=-1)}, f"{ADJUST}.multiply", "negative"),
    ({"rollback": adjusting(multiply=0)}, f"{ADJUST}.multiply", "above 0"),
    (
        {"rollback": {"adjust": [{"parameter": "LearningRate", "add": -1.0e-6}]}},
        f"{ADJUST}.add",
        "min",
    ),
    (
        {"rollback": adjusting(parameter="CriticLearningRate"), "algorithm": {"estimator": "ReinforcePlusPlus"}},
        "spec.rollback.adjust[CriticLearningRate].parameter",
        "critic",
    ),
    (
        {"rollback": adjusting(parameter="KLCoefficient"), "algorithm": {"kl": {"placement": "None"}}},
        "spec.rollback.adjust[KLCoefficient].parameter",
        "spec.algorithm.kl.placement",
    ),
    # algorithm
    (
        {
            "model": {"actor": {"path": "/m"}, "critic": {"path": "/c"}},
            "algorithm": {"estimator": "GRPO"},
            "rollout": {"samplesPerPrompt": 2},
        },
        "spec.model.critic",
        "GAE",
    ),
    ({"algorithm": {"estimator": "GRPO"}}, "spec.rollout.samplesPerPrompt", "2 or more"),
    (
        {"algorithm": {"kl": {"control": "Adaptive", "placement": "Loss"}}},
        "spec.algorithm.kl.control",
        "kl.placement Reward",
    ),
    ({"algorithm": {"kl": {"target": 0.1}}}, "spec.algorithm.kl.target", "Adaptive"),
    ({"algorithm": {"clipRatioHigh": 0.1}}, "spec.algorithm.clipRatioHigh", "clipRatio"),
    # verl's arithmetic
    ({"training": training(miniBatchSize=6)}, "spec.training.miniBatchSize", "divide batchSize"),
    (
        {"cluster": {"device": "CPU", "devicesPerNode": 3}},
        "spec.training.batchSize",
        "3 devices",
    ),
    (
        {"cluster": {"device": "CPU", "devicesPerNode": 16}},
        "spec.training.miniBatchSize",
        "16 devices",
    ),
    ({"training": training(microBatchSizePerDevice=3)}, "spec.training.microBatchSizePerDevice", "8 samples"),
    (
        {"training": training(logProbMicroBatchSizePerDevice=32)},
        "spec.training.logProbMicroBatchSizePerDevice",
        "16 samples",
    ),
    (
        {"training": training(referenceMicroBatchSizePerDevice=5)},
        "spec.training.referenceMicroBatchSizePerDevice",
        "16 samples",
    ),
    # engines and devices
    ({"rollout": {"engine": "VLLM"}}, "spec.rollout.engine", "spec.trainer.image"),
    ({"rollout": {"engine": "Transformers"}, "cluster": {"device": "NvidiaGPU"}}, "spec.rollout.engine", "CPU"),
    ({"training": training(strategy="FSDP")}, "spec.training.strategy", "FSDP2"),
    ({"rollout": {"tensorParallelSize": 2}}, "spec.rollout.tensorParallelSize", "Transformers"),
    (
        {"rollout": {"tensorParallelSize": 2}, "cluster": {"device": "NvidiaGPU"}},
        "spec.rollout.tensorParallelSize",
        "1 devices",
    ),
    ({"cluster": {"device": "AscendNPU"}}, "spec.trainer.image", "AscendNPU"),
    ({"cluster": {"device": "CPU", "sharedMemory": "64Mi"}}, "spec.cluster.sharedMemory", "256Mi"),
    ({"cluster": {"device": "CPU", "sharedMemory": "500m"}}, "spec.cluster.sharedMemory", "256Mi"),
    ({"cluster": {"device": "CPU", "resourceName": "x.y/z"}}, "spec.cluster.resourceName", "CPU"),
    (
        {"cluster": {"resources": {"limits": {"nvidia.com/gpu": 1}}}},
        "spec.cluster.resources.limits[nvidia.com/gpu]",
        "devicesPerNode",
    ),
    # data and rewards
    ({"data": data(train=["train.parquet"])}, "spec.data.train[0]", "absolute"),
    ({"data": data(shuffle=False), "rollback": {"data": "Reshuffle"}}, "spec.rollback.data", "shuffle: true"),
    ({"data": data(train=["/data/${oc.env:HOME}"])}, "spec.data.train", "${"),
    ({"reward": term()}, TERM, "exactly one"),
    ({"reward": term(rule={"type": "GSM8K"}, model={"path": "/m"})}, TERM, "exactly one"),
    ({"reward": term(model={"path": "org/model"})}, f"{TERM}.model.path", "HF_HUB_OFFLINE"),
    ({"reward": term(model={"path": "/m", "engine": "VLLM"})}, f"{TERM}.model.engine", "use Transformers"),
    ({"reward": term(model={"path": "/m", "memoryFraction": 0.5})}, f"{TERM}.model.memoryFraction", "engine VLLM"),
    (
        {"cluster": GPUS, "reward": term(model={"path": "/m", "tensorParallelSize": 3})},
        f"{TERM}.model.tensorParallelSize",
        "must divide",
    ),
    (
        {
            "cluster": GPUS,
            "reward": {"terms": [{"name": "a", "model": {"path": "/a"}}, {"name": "r", "model": {"path": "/b"}}]},
        },
        f"{TERM}.model.engine",
        "verl serves one reward model, that of a",
    ),
    ({"reward": term(rule={"type": "Overlong"})}, f"{TERM}.rule.bufferTokens", "Overlong"),
    ({"reward": term(rule={"type": "GSM8K", "bufferTokens": 4})}, f"{TERM}.rule.bufferTokens", "Overlong"),
    ({"reward": term(rule={"type": "Overlong", "bufferTokens": 257})}, f"{TERM}.rule.bufferTokens", "maxResponse"),
    ({"reward": term(rule={"type": "ExactMatch", "format": "Strict"})}, f"{TERM}.rule.format", "GSM8K"),
    (
        {"trainer": overriding("reward.reward_model.enable", True)},
        "spec.trainer.overrides[reward.reward_model.enable]",
        "managed",
    ),
    ({"reward": term(rule={"type": "Regex"})}, f"{TERM}.rule.pattern", "Regex"),
    ({"reward": term(rule={"type": "GSM8K", "mode": "Share"})}, f"{TERM}.rule.mode", "Regex"),
    ({"reward": term(rule={"type": "Regex", "pattern": "("})}, f"{TERM}.rule.pattern", "regular expression"),
    # verl's own keys
    ({"trainer": overriding("trainer.resume_mode", "auto")}, "spec.trainer.overrides[trainer.resume_mode]", "managed"),
    ({"trainer": overriding("ray_kwargs.x")}, "spec.trainer.overrides[ray_kwargs.x]", "managed"),
    (
        {"trainer": overriding("actor_rollout_ref.actor.optim.lr")},
        "spec.trainer.overrides[actor_rollout_ref.actor.optim.lr]",
        "use spec.training.learningRate",
    ),
    (
        {"trainer": overriding("data.train_batch_size")},
        "spec.trainer.overrides[data.train_batch_size]",
        "use spec.training.batchSize",
    ),
    (
        {"trainer": overriding("data.truncation", "${oc.env:TOKEN}")},
        "spec.trainer.overrides[data.truncation].value",
        "interpolation",
    ),
    (
        {"trainer": {"overrides": [{"key": f"data.x{n}", "value": "y" * 4000} for n in range(17)]}},
        "spec.trainer.overrides",
        "65536",
    ),
    # pods
    ({"trainer": {"env": [{"name": "PPOJOB_UID", "value": "x"}]}}, "spec.trainer.env[PPOJOB_UID]", "operator"),
    ({"trainer": {"env": [{"name": "RAY_ADDRESS"}]}}, "spec.trainer.env[RAY_ADDRESS]", "KubeRay"),
    ({"cluster": limited("resources", cpu=("2", "1500m"))}, "spec.cluster.resources.requests[cpu]", "limit, 1500m"),
    ({"cluster": limited("headResources", memory=("1Gi", "1G"))}, "spec.cluster.headResources.requests[memory]", "1G"),
    (
        {"cluster": pods(spec={"containers": [container("side", requests={"cpu": 2}, limits={"cpu": "1e0"})]})},
        f"{TEMPLATE}.spec.containers[side].resources.requests[cpu]",
        "limit, 1e0",
    ),
    (
        {"cluster": limited("resources", cpu=("2", "4")) | pods(spec={"containers": [container(limits={"cpu": "1"})]})},
        f"{TEMPLATE}.spec.containers[ray].resources.requests[cpu]",
        "2 is more than the limit, 1",
    ),
    ({"cluster": pods(spec={"nodeSelectr": {}})}, f"{TEMPLATE}.spec.nodeSelectr", "did you mean nodeSelector?"),
    ({"cluster": pods(spec={"NodeName": "n"})}, f"{TEMPLATE}.spec.NodeName", "did you mean nodeName?"),
    (
        {"cluster": pods(spec={"containers": [container() | {"securityContext": {"runAsUsr": 1}}]})},
        f"{TEMPLATE}.spec.containers[ray].securityContext.runAsUsr",
        "did you mean runAsUser?",
    ),
    (
        {"cluster": pods(spec={"volumes": [{"name": "v", "hostPath": {"zzz": "/"}}]})},
        f"{TEMPLATE}.spec.volumes[v].hostPath.zzz",
        "kubectl explain",
    ),
    ({"cluster": pods(containers=[])}, f"{TEMPLATE}.containers", "metadata and spec"),
    ({"cluster": pods(metadata={"name": "x"})}, f"{TEMPLATE}.metadata.name", "labels"),
    ({"cluster": pods(metadata={"labels": {"ray.io/cluster": "x"}})}, f"{TEMPLATE}.metadata.labels", "found by"),
    ({"cluster": pods(spec={"restartPolicy": "Always"})}, f"{TEMPLATE}.spec.restartPolicy", "cannot be changed"),
    ({"cluster": pods(spec={"shareProcessNamespace": True})}, f"{TEMPLATE}.spec.shareProcessNamespace", "cannot be"),
    (
        {"cluster": pods(spec={"containers": [{"name": "ray", "env": [{"name": "RAY_ADDRESS", "value": "x"}]}]})},
        f"{TEMPLATE}.spec.containers[ray].env[RAY_ADDRESS]",
        "is set by the operator",
    ),
    (
        {"cluster": pods(spec={"initContainers": [{"name": "monitor", "env": [{"name": "PPOJOB_UID"}]}]})},
        f"{TEMPLATE}.spec.initContainers[monitor].env[PPOJOB_UID]",
        "is set by the operator",
    ),
    ({"cluster": pods(spec={"volumes": [{"name": "run"}]})}, f"{TEMPLATE}.spec.volumes[run]", "of this name"),
    ({"cluster": pods(spec={"containers": [{"image": "x"}]})}, f"{TEMPLATE}.spec.containers[0].name", "required"),
    ({"cluster": pods(spec={"containers": {}})}, f"{TEMPLATE}.spec.containers", "list"),
    (
        {"cluster": pods(spec={"containers": [{"name": "ray", "command": ["sh"]}]})},
        f"{TEMPLATE}.spec.containers[ray].command",
        "cannot be changed",
    ),
    (
        {"cluster": pods(spec={"containers": [{"name": "ray", "volumeMounts": [{"mountPath": "/ppojob/run/"}]}]})},
        f"{TEMPLATE}.spec.containers[ray].volumeMounts",
        "mounts",
    ),
]


@pytest.mark.parametrize(("blocks", "field", "fix"), REFUSED, ids=[field for _, field, _ in REFUSED])
def test_refused_with_the_field_and_the_fix(blocks: dict[str, Any], field: str, fix: str) -> None:
    found = problems(**blocks)
    matching = {key: message for key, message in found.items() if key == field or key.startswith(f"{field}[")}
    assert matching, found
    assert any(fix in message for message in matching.values()), found


ACCEPTED: dict[str, dict[str, Any]] = {
    "the base": {},
    "a verl key as metric": {"guardrails": guardrails("critic/returns/mean")},
    "kl by monitoring alone": {"guardrails": guardrails(), "algorithm": {"kl": {"placement": "None"}}},
    "adaptive with GAE's default placement": {"algorithm": {"kl": {"control": "Adaptive", "target": 0.05}}},
    "a free verl key": {"trainer": overriding("data.truncation", "left")},
    "token batches need no micro-batches": {
        "trainer": overriding("actor_rollout_ref.actor.use_dynamic_bsz", True),
        "training": training(microBatchSizePerDevice=3),
    },
    "numbers as quantities": {"cluster": {"device": "CPU", "resources": {"requests": {"cpu": 8, "memory": "1.5Gi"}}}},
    "a hub name on GPUs": {"model": HUB, "cluster": {"device": "NvidiaGPU"}},
    "a hub name in an own image": {"model": HUB, "trainer": {"image": "mine"}},
    "a hub that may be asked": {"model": HUB, "trainer": {"env": [{"name": "HF_HUB_OFFLINE", "value": "0"}]}},
    "an environment that is not known": {
        "model": HUB,
        "cluster": pods(spec={"containers": [{"name": "ray", "envFrom": [{"configMapRef": {"name": "hub"}}]}]}),
    },
    "vLLM on CPU in an own image": {"rollout": {"engine": "VLLM"}, "trainer": {"image": "mine"}},
    "an NPU in an own image": {"cluster": {"device": "AscendNPU"}, "trainer": {"image": "mine"}},
    "a decrease with a floor": {"rollback": {"adjust": [{"parameter": "ClipRatio", "add": -0.05, "min": 0.05}]}},
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    assert problems(**ACCEPTED[name]) == {}


def job(raw: dict[str, Any]) -> PPOJob:
    return PPOJob(
        namespace="ns",
        name="job",
        uid=UID,
        generation=3,
        resource_version="1",
        created=datetime(2026, 1, 1, tzinfo=UTC),
        deleting=False,
        raw_spec=raw,
        status=PPOJobStatus(),
    )


def test_an_accepted_job_has_its_generation() -> None:
    accepted, found, warned = accept(job(raw_spec()))
    assert accepted is not None
    assert accepted.generation == 3
    assert found == ()
    assert len(warned) == 1


def test_a_device_that_the_operator_has_no_image_for() -> None:
    _, (problem,), _ = accept(job(raw_spec()), imageless=[Device.CPU])
    assert problem.field == "spec.trainer.image"
    assert accept(job(raw_spec(trainer={"image": "mine"})), imageless=[Device.CPU])[0] is not None


@pytest.mark.parametrize("raw", [{}, raw_spec(algorithm={"estimator": "GRPO"}), {"model": []}, raw_spec(data=None)])
def test_a_refused_job_says_why_and_nothing_else(raw: dict[str, Any]) -> None:
    accepted, found, warned = accept(job(raw))
    assert accepted is None
    assert found
    assert warned == ()


def test_a_problem_reads_as_a_sentence() -> None:
    (problem,) = judge(raw_spec(training=training(miniBatchSize=6)))[1][:1]
    assert str(problem) == "spec.training.miniBatchSize: must divide batchSize: 16 is no multiple of 6"
