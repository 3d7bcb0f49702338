"""Parameters of `ray start`: numbers only, since KubeRay puts them into a shell command."""

from ppojob_operator.api.v1alpha1.quantities import quantity_bytes
from ppojob_operator.api.v1alpha1.spec import Device, PPOJobSpec

_CPU_OBJECT_STORE_LIMIT = 512 * 2**20


def device_node(spec: PPOJobSpec, *, head: bool) -> dict[str, str]:
    """Of a pod with devices. On CPU the devices are logical: verl asks Ray for one GPU each."""
    devices = spec.cluster.devices_per_node
    on_cpu = spec.cluster.device is Device.CPU
    # Logical, no reservation. verl asks for 3 a worker, and for its rollout, reward and queue actors (8 of each by
    # default); Ray starts as many idle processes at first, so that more than needed costs seconds on a small machine.
    params = {"num-cpus": str((12 if on_cpu else 24) + 4 * devices)}
    if spec.cluster.device is not Device.ASCEND_NPU:
        # Ray finds NPUs by itself, as a resource of their own.
        params["num-gpus"] = str(devices)
    return params | _common(spec, head=head)


def deviceless_head(spec: PPOJobSpec) -> dict[str, str]:
    """Of the head where others have the devices."""
    on_cpu = spec.cluster.device is Device.CPU
    return {"num-cpus": "16" if on_cpu else "32", "num-gpus": "0"} | _common(spec, head=True)


def _common(spec: PPOJobSpec, *, head: bool) -> dict[str, str]:
    params = {"dashboard-host": "0.0.0.0"} if head else {}  # noqa: S104 (KubeRay submits jobs from another pod)
    if spec.cluster.device is Device.CPU:
        # Ray would take a third of the machine's memory; toy batches need little.
        shared = quantity_bytes(spec.cluster.shared_memory)
        assert shared is not None, "acceptance refuses shared memory that is no memory"
        size = min(shared // 2, _CPU_OBJECT_STORE_LIMIT)
        params["object-store-memory"] = str(size)
    return params
