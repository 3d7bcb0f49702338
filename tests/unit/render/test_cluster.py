"""The RayCluster and its pods."""

from typing import Any

import pytest
from tests.support.builders import UID, raw_spec, spec

from ppojob_operator.api.v1alpha1.quantities import quantity_bytes
from ppojob_operator.api.v1alpha1.spec import Device
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.render.pods import NoImage
from ppojob_operator.render.raycluster import render_cluster
from ppojob_operator.render.settings import RenderSettings

SETTINGS = RenderSettings(images={Device.CPU: "trainer:cpu", Device.NVIDIA_GPU: "trainer:cuda"})


def job(name: str = "job", **blocks: Any) -> AcceptedJob:
    return AcceptedJob(namespace="ns", name=name, uid=UID, generation=1, spec=spec(**blocks))


def cluster(**blocks: Any) -> dict[str, Any]:
    return render_cluster(job(**blocks), 1, SETTINGS)


def head(rendered: dict[str, Any]) -> dict[str, Any]:
    group: dict[str, Any] = rendered["spec"]["headGroupSpec"]
    return group


def pod(group: dict[str, Any]) -> dict[str, Any]:
    template: dict[str, Any] = group["template"]["spec"]
    return template


GPUS = {"device": "NvidiaGPU", "devicesPerNode": 8, "nodes": 4, "resources": {"requests": {"cpu": 32}}}


def test_one_node_is_one_pod_with_devices() -> None:
    rendered = cluster(cluster={"device": "NvidiaGPU", "devicesPerNode": 8})
    assert rendered["spec"]["workerGroupSpecs"] == []
    resources = pod(head(rendered))["containers"][0]["resources"]
    assert resources == {"requests": {"nvidia.com/gpu": "8"}, "limits": {"nvidia.com/gpu": "8"}}
    assert head(rendered)["rayStartParams"]["num-gpus"] == "8"


def test_several_nodes_have_a_head_without_devices() -> None:
    rendered = cluster(cluster=GPUS)
    (workers,) = rendered["spec"]["workerGroupSpecs"]
    assert (workers["replicas"], workers["minReplicas"], workers["maxReplicas"]) == (4, 4, 4)
    assert pod(workers)["containers"][0]["resources"] == {
        "requests": {"cpu": "32", "nvidia.com/gpu": "8"},
        "limits": {"nvidia.com/gpu": "8"},
    }
    assert head(rendered)["rayStartParams"]["num-gpus"] == "0"
    assert pod(head(rendered))["containers"][0]["resources"] == {}
    assert "initContainers" not in pod(workers)


def test_a_device_can_have_another_resource_name() -> None:
    rendered = cluster(cluster={"device": "NvidiaGPU", "resourceName": "nvidia.com/mig-3g.40gb"})
    assert "nvidia.com/mig-3g.40gb" in pod(head(rendered))["containers"][0]["resources"]["limits"]


def test_npus_are_left_to_ray() -> None:
    rendered = cluster(cluster={"device": "AscendNPU"}, trainer={"image": "mine"})
    assert "num-gpus" not in head(rendered)["rayStartParams"]
    assert pod(head(rendered))["containers"][0]["resources"]["limits"] == {"huawei.com/Ascend910": "1"}


def test_a_device_without_an_image_is_told() -> None:
    with pytest.raises(NoImage, match="AscendNPU"):
        cluster(cluster={"device": "AscendNPU"})


def test_the_monitor_is_a_sidecar_that_alone_has_the_token() -> None:
    head_pod = pod(head(cluster()))
    (monitor,), (ray,) = head_pod["initContainers"], head_pod["containers"]
    assert monitor["restartPolicy"] == "Always"
    assert monitor["ports"] == [{"name": "monitor", "containerPort": 8477}]
    assert "readinessProbe" not in monitor
    mounts = {container["name"]: {m["mountPath"] for m in container["volumeMounts"]} for container in (monitor, ray)}
    assert "/ppojob/token" in mounts["monitor"]
    assert "/ppojob/token" not in mounts["ray"]
    assert {"/ppojob/run", "/ppojob/storage"} <= mounts["monitor"] & mounts["ray"]


def test_no_pod_gets_a_service_account_token_or_restarts() -> None:
    rendered = cluster(cluster=GPUS)
    for group in (head(rendered), *rendered["spec"]["workerGroupSpecs"]):
        assert pod(group)["automountServiceAccountToken"] is False
        assert pod(group)["restartPolicy"] == "Never"
        for container in pod(group)["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False


def test_ending_a_pod_leaves_time_for_the_stop() -> None:
    head_pod = pod(head(cluster(gracefulStopSeconds=120)))
    ray = head_pod["containers"][0]
    environment = {item["name"]: item.get("value") for item in ray["env"]}
    assert ray["lifecycle"]["preStop"]["exec"]["command"] == ["ppojob-stop"]
    assert 120 <= int(environment["RAY_JOB_STOP_WAIT_TIME_S"]) <= head_pod["terminationGracePeriodSeconds"]


def test_no_pod_outlives_its_stop() -> None:
    rendered = cluster(cluster=GPUS)
    (workers,) = rendered["spec"]["workerGroupSpecs"]
    for group in (head(rendered), workers):
        environment = {item["name"]: item.get("value") for item in pod(group)["containers"][0]["env"]}
        assert environment["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"] == "0"
    assert pod(workers)["shareProcessNamespace"] is True, "KubeRay's init container ends by SIGTERM"
    assert "shareProcessNamespace" not in pod(head(rendered)), "the trainer must not see the monitor's token"


def test_all_probes_are_ours_and_start_no_process() -> None:
    rendered = cluster(cluster=GPUS)
    for group in (head(rendered), *rendered["spec"]["workerGroupSpecs"]):
        ray = pod(group)["containers"][0]
        assert set(ray["livenessProbe"]) & set(ray["readinessProbe"]) >= {"tcpSocket"}


def test_environment_is_plain_text() -> None:
    ray = pod(head(cluster(trainer={"env": [{"name": "A", "value": "$(HOME) $B"}]})))["containers"][0]
    assert {"name": "A", "value": "$$(HOME) $B"} in ray["env"]


def test_reward_functions_are_mounted_in_ray_containers() -> None:
    terms = [{"name": "mine", "function": {"configMap": "rewards"}}]
    head_pod = pod(head(cluster(reward={"terms": terms})))
    mounts = {m["mountPath"]: m["name"] for m in head_pod["containers"][0]["volumeMounts"]}
    volume = next(v for v in head_pod["volumes"] if v["name"] == mounts["/ppojob/functions/mine"])
    assert volume["configMap"] == {"name": "rewards"}


def test_an_overlay_is_laid_over_every_pod() -> None:
    overlay = {
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}},
        "spec": {
            "runtimeClassName": "nvidia",
            "containers": [
                {"name": "ray", "env": [{"name": "NCCL_DEBUG", "value": "INFO"}], "volumeMounts": [RDMA_MOUNT]},
                {"name": "helper", "image": "busybox"},
            ],
            "initContainers": [{"name": "monitor", "env": [{"name": "LOG", "value": "debug"}]}],
            "volumes": [{"name": "rdma", "hostPath": {"path": "/dev/infiniband"}}],
        },
    }
    rendered = cluster(cluster=GPUS | {"podTemplate": overlay})
    workers = rendered["spec"]["workerGroupSpecs"][0]
    for group in (head(rendered), workers):
        assert group["template"]["metadata"]["labels"]["team"] == "a"
        assert pod(group)["runtimeClassName"] == "nvidia"
        assert [container["name"] for container in pod(group)["containers"]] == ["ray", "helper"]
        ray = pod(group)["containers"][0]
        assert ray["image"] == "trainer:cuda"
        assert RDMA_MOUNT in ray["volumeMounts"]
        assert {"name": "NCCL_DEBUG", "value": "INFO"} in ray["env"]
    assert {"name": "LOG", "value": "debug"} in pod(head(rendered))["initContainers"][0]["env"]
    assert "initContainers" not in pod(workers)


RDMA_MOUNT = {"name": "rdma", "mountPath": "/dev/infiniband"}


def test_two_mounts_of_one_volume_stay_two() -> None:
    mounts = [{"name": "rdma", "mountPath": f"/{name}"} for name in "ab"]
    overlay = {"spec": {"containers": [{"name": "ray", "volumeMounts": mounts}]}}
    ray = pod(head(cluster(cluster={"device": "CPU", "podTemplate": overlay})))["containers"][0]
    assert [mount for mount in ray["volumeMounts"] if mount["name"] == "rdma"] == mounts


def test_rendering_shares_nothing_between_calls() -> None:
    first = cluster()
    head(first)["template"]["spec"]["containers"][0]["securityContext"]["capabilities"]["drop"].append("changed")
    assert "changed" not in str(cluster())


def test_the_hash_is_of_the_fields() -> None:
    def hash_of(**blocks: Any) -> str:
        value: str = cluster(**blocks)["metadata"]["annotations"]["rlhf.dev/cluster-hash"]
        return value

    assert hash_of() == hash_of(cluster=raw_spec()["cluster"] | {"nodes": 1, "sharedMemory": "10Gi"})
    assert hash_of() == hash_of(guardrails=[])
    assert hash_of() != hash_of(trainer={"image": "other"})
    assert hash_of() != hash_of(cluster={"device": "CPU", "sharedMemory": "1Gi"})


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        ("1", 1),
        ("2k", 2000),
        ("1.5Gi", 1610612736),
        ("10Mi", 10485760),
        ("3T", 3 * 10**12),
        ("100m", None),
        ("x", None),
    ],
)
def test_quantities(quantity: str, expected: int | None) -> None:
    assert quantity_bytes(quantity) == expected


def test_scrape_annotations_are_the_installations_choice_and_the_users_win() -> None:
    asked = RenderSettings(images={Device.CPU: "trainer:cpu"}, scrape_annotations=True)
    overlay = {"metadata": {"annotations": {"prometheus.io/path": "/other"}}}
    rendered = render_cluster(job(cluster={"device": "CPU", "podTemplate": overlay}), 1, asked)
    assert head(rendered)["template"]["metadata"]["annotations"] == {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": "8477",
        "prometheus.io/path": "/other",
    }
    assert "annotations" not in head(cluster())["template"]["metadata"]
