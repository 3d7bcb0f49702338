"""The Kubernetes adapter against a real API server (KUBECONFIG), with the CRDs of PPOJob and KubeRay.

The Ray objects never run: they are suspended and managed by nobody. Their namespace is deleted in the end.
"""

import asyncio
import contextlib
import dataclasses
import json
import secrets
from collections.abc import AsyncIterator, Iterator
from typing import Any

import kopf
import pytest
from tests.support.kube import RELEASE, REPOSITORY, SYSTEM, Kube

from ppojob_contract.names import LABEL_JOB, LABEL_JOB_UID
from ppojob_operator.adapters.kubernetes import Api, KubernetesCluster, KubernetesLease, Store, load_configuration
from ppojob_operator.adapters.kubernetes.cluster import REVISIONS_KEPT
from ppojob_operator.adapters.kubernetes.kinds import EVENT, PPO_JOB, RAY_JOB
from ppojob_operator.adapters.kubernetes.watches import LATE_SECONDS, Watches
from ppojob_operator.api.v1alpha1.resource import PPOJob
from ppojob_operator.controller import handlers
from ppojob_operator.controller.leadership import Leadership, Timing
from ppojob_operator.domain.events import Event
from ppojob_operator.errors import ClusterUnavailable, Conflict, CRDMismatch, LeadershipLost
from ppojob_operator.ports import Key
from ppojob_operator.telemetry import Telemetry

pytestmark = pytest.mark.cluster

CRD = "ppojobs.rlhf.dev"
SPEC = {
    "model": {"actor": {"path": "/models/tiny"}},
    "data": {"train": ["/data/train.parquet"], "validation": ["/data/test.parquet"]},
    "reward": {"terms": [{"name": "exact", "rule": {"type": "ExactMatch"}}]},
    "training": {"totalSteps": 10, "batchSize": 8, "miniBatchSize": 4},
    "storage": {"claimName": "claim"},
}


def kubectl(*arguments: str, stdin: str | None = None) -> str:
    return Kube.connect().kubectl(*arguments, stdin=stdin)


@pytest.fixture(scope="module")
def kube() -> Kube:
    """The cluster, without an operator that would act on these tests' objects, and with today's CRD."""
    connected = Kube.connect()
    connected.helm("uninstall", RELEASE, "--namespace", SYSTEM, "--ignore-not-found", "--wait")
    # In Helm's name, or the next chart with another CRD would be refused as somebody else's change.
    connected.kubectl.apply("--field-manager=helm", "-f", REPOSITORY / "crds")
    connected.kubectl("wait", "--for=condition=Established", f"crd/{CRD}", "--timeout=30s")
    return connected


@pytest.fixture(scope="module")
def namespace(kube: Kube) -> Iterator[str]:
    name = f"adapters-{secrets.token_hex(3)}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()


@pytest.fixture
async def api(telemetry: Telemetry) -> AsyncIterator[Api]:
    made = Api(await load_configuration(str(Kube.connect().kubectl.kubeconfig)), requests=telemetry)
    yield made
    await made.close()


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def cluster(api: Api, store: Store, namespace: str) -> KubernetesCluster:
    return KubernetesCluster(api, store, namespaces=[namespace])


def new_job(namespace: str) -> PPOJob:
    name = f"job-{secrets.token_hex(3)}"
    body = {"apiVersion": PPO_JOB.api_version, "kind": "PPOJob", "metadata": {"name": name}, "spec": SPEC}
    made = kubectl("create", "-n", namespace, "-f", "-", "-o", "json", stdin=json.dumps(body))
    return PPOJob.from_object(json.loads(made))


def key_of(job: PPOJob) -> Key:
    return Key(job.namespace, job.name, job.uid)


def child(job: PPOJob, kind: str, name: str, spec: dict[str, Any], api_version: str = "ray.io/v1") -> dict[str, Any]:
    owner = {"apiVersion": PPO_JOB.api_version, "kind": "PPOJob", "name": job.name, "uid": job.uid, "controller": True}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": {LABEL_JOB: job.name, LABEL_JOB_UID: job.uid},
            "ownerReferences": [owner],
        },
    } | spec


def ray_job(job: PPOJob, attempt: int = 1) -> dict[str, Any]:
    # Suspended by a manager that does not exist: KubeRay leaves it alone.
    spec = {"entrypoint": "true", "suspend": True, "managedBy": "kueue.x-k8s.io/multikueue", "rayClusterSpec": _ray()}
    return child(job, "RayJob", f"{job.name}-a{attempt}", {"spec": spec})


def ray_cluster(job: PPOJob, number: int = 1) -> dict[str, Any]:
    spec = _ray() | {"suspend": True, "managedBy": "kueue.x-k8s.io/multikueue"}
    return child(job, "RayCluster", f"{job.name}-c{number}", {"spec": spec})


def _ray() -> dict[str, Any]:
    pod = {"spec": {"containers": [{"name": "ray", "image": "none"}]}}
    group = {"groupName": "w", "replicas": 2, "minReplicas": 2, "maxReplicas": 2, "rayStartParams": {}, "template": pod}
    return {"headGroupSpec": {"rayStartParams": {}, "template": pod}, "workerGroupSpecs": [group]}


async def test_a_job_is_read_and_only_in_its_own_life(cluster: KubernetesCluster, namespace: str) -> None:
    job = new_job(namespace)
    assert await cluster.get_job(key_of(job)) == job
    assert await cluster.get_job(Key(namespace, job.name, "another-life")) is None
    assert await cluster.get_job(Key(namespace, "nobody", job.uid)) is None


async def test_a_status_is_replaced_at_its_version(cluster: KubernetesCluster, namespace: str) -> None:
    job = new_job(namespace)
    written = await cluster.write_status(job, {"phase": "Running", "rollbacks": 1, "restarts": 2})
    assert (written.status.phase, written.status.rollbacks, written.generation) == ("Running", 1, job.generation)
    again = await cluster.write_status(written, {"phase": "Failed"})
    assert (again.status.phase, again.status.rollbacks) == ("Failed", 0)
    assert again.raw_spec == job.raw_spec
    with pytest.raises(Conflict):
        await cluster.write_status(job, {"phase": "Running"})
    kubectl("delete", "ppojob", "-n", namespace, job.name)
    with pytest.raises(Conflict):
        await cluster.write_status(again, {"phase": "Running"})


async def test_a_conflict_is_not_met_twice(cluster: KubernetesCluster, store: Store, namespace: str) -> None:
    """The store learns the new version, also while the watch is late."""
    job = new_job(namespace)
    await cluster.sync()
    kubectl("annotate", "ppojob", "-n", namespace, job.name, "a=b")
    with pytest.raises(Conflict):
        await cluster.write_status(job, {"phase": "Running"})
    fresh = await cluster.get_job(key_of(job))
    assert fresh is not None
    await cluster.write_status(fresh, {"phase": "Running"})


async def test_children_are_created_once_and_deleted_by_uid(cluster: KubernetesCluster, namespace: str) -> None:
    job = new_job(namespace)
    for _ in range(2):
        await cluster.create(ray_job(job))
        await cluster.create(ray_cluster(job))
    (found,) = await cluster.list_ray_jobs(key_of(job))
    (ray,) = await cluster.list_clusters(key_of(job))
    assert (found.name, found.attempt, found.deleting) == (f"{job.name}-a1", 1, False)
    assert (ray.name, ray.number, ray.head, ray.workers_desired) == (f"{job.name}-c1", 1, None, 2)
    await cluster.delete("RayJob", namespace, found.name, "another-uid")
    assert await cluster.list_ray_jobs(key_of(job))
    for _ in range(2):
        await cluster.delete("RayJob", namespace, found.name, found.uid)
    assert not await cluster.list_ray_jobs(key_of(job))


async def test_a_field_that_kuberay_does_not_know_is_an_error(cluster: KubernetesCluster, namespace: str) -> None:
    """It would be dropped without a word."""
    job = new_job(namespace)
    made = ray_cluster(job)
    made["spec"]["headGroupSpec"]["template"]["spec"]["nodeSelectr"] = {"a": "b"}
    with pytest.raises(ClusterUnavailable, match=r"headGroupSpec\.template\.spec\.nodeSelectr"):
        await cluster.create(made)
    assert not await cluster.list_clusters(key_of(job))


async def test_anothers_object_is_a_conflict(cluster: KubernetesCluster, namespace: str) -> None:
    one, two = new_job(namespace), new_job(namespace)
    await cluster.create(ray_job(one))
    stolen = ray_job(two)
    stolen["metadata"]["name"] = f"{one.name}-a1"
    with pytest.raises(Conflict, match="belongs to something else"):
        await cluster.create(stolen)


async def test_own_writes_are_in_the_store_at_once(cluster: KubernetesCluster, namespace: str) -> None:
    job = new_job(namespace)
    await cluster.sync()
    await cluster.create(ray_job(job))
    assert [view.attempt for view in await cluster.list_ray_jobs(key_of(job))] == [1]
    await cluster.write_status(job, {"phase": "Running"})
    read = await cluster.get_job(key_of(job))
    assert read is not None
    assert read.status.phase == "Running"


async def test_secrets_claims_and_revisions(cluster: KubernetesCluster, namespace: str) -> None:
    job = new_job(namespace)
    name = f"{job.name}-monitor"
    assert await cluster.read_token(namespace, name) is None
    await cluster.create(child(job, "Secret", name, {"stringData": {"token": "t-1"}}, "v1"))
    assert await cluster.read_token(namespace, name) == "t-1"
    assert not await cluster.claim_exists(namespace, "claim")
    assert await cluster.load_revision(namespace, "none") is None
    for _ in range(2):
        await cluster.save_revision(job, f"{job.name}-r1", {"suspend": True})
    assert await cluster.load_revision(namespace, f"{job.name}-r1") == {"suspend": True}


async def test_old_revisions_go_and_what_governs_stays(cluster: KubernetesCluster, namespace: str) -> None:
    job, other = new_job(namespace), new_job(namespace)
    await cluster.save_revision(other, f"{other.name}-r0", {})
    governs = job.status.model_copy(update={"accepted_revision": f"{job.name}-r2"})
    for number in range(1, REVISIONS_KEPT + 5):
        edited = dataclasses.replace(job, generation=number, status=governs)
        await cluster.save_revision(edited, f"{job.name}-r{number}", {"suspend": bool(number % 2)})
    newest = range(5, REVISIONS_KEPT + 5)
    assert [
        number
        for number in range(1, REVISIONS_KEPT + 5)
        if await cluster.load_revision(namespace, f"{job.name}-r{number}") is not None
    ] == [2, *newest]
    assert await cluster.load_revision(namespace, f"{other.name}-r0") == {}


async def test_a_status_that_the_crd_does_not_know_says_what_to_do(cluster: KubernetesCluster, namespace: str) -> None:
    with pytest.raises(CRDMismatch, match=r"Unsupported value: \"Dreaming\".*crds\.install"):
        await cluster.write_status(new_job(namespace), {"phase": "Dreaming"})


async def test_an_event_that_repeats_is_counted_up(api: Api, namespace: str) -> None:
    now = 0.0
    job = new_job(namespace)
    event = Event(type="Warning", reason="RollbackStarted", message="kl was bad")
    first = KubernetesCluster(api, Store(), monotonic=lambda: now)
    await first.emit(job, event)
    await first.emit(job, event)
    now = 60.0
    await first.emit(job, event)
    await KubernetesCluster(api, Store()).emit(job, event)  # a restarted operator
    items, _ = await api.list(EVENT.path(namespace))
    ours = [item for item in items if item["involvedObject"]["uid"] == job.uid]
    assert [(item["reason"], item["count"], item["message"]) for item in ours] == [("RollbackStarted", 3, "kl was bad")]
    assert "RollbackStarted" in kubectl("describe", "ppojob", "-n", namespace, job.name)


async def test_a_deleted_job_is_gone(cluster: KubernetesCluster, namespace: str) -> None:
    job = new_job(namespace)
    await cluster.delete_job(job)
    await cluster.delete_job(job)
    assert await cluster.get_job(key_of(job)) is None


async def test_all_kinds_are_installed(cluster: KubernetesCluster) -> None:
    assert await cluster.missing_kinds() == []


async def test_nobody_writes_without_the_lease(api: Api, cluster: KubernetesCluster, namespace: str) -> None:
    job = new_job(namespace)
    api.may_write = lambda: False
    with pytest.raises(LeadershipLost):
        await cluster.write_status(job, {"phase": "Running"})
    assert await cluster.get_job(key_of(job)) is not None


async def test_an_unreachable_server_is_unavailable(telemetry: Telemetry) -> None:
    configuration = await load_configuration(str(Kube.connect().kubectl.kubeconfig))
    configuration.host = "https://127.0.0.1:1"
    nowhere = Api(configuration, requests=telemetry)
    with pytest.raises(ClusterUnavailable, match="GET /api/v1/namespaces/ns/secrets/name: "):
        await KubernetesCluster(nowhere, Store()).read_token("ns", "name")
    await nowhere.close()
    assert telemetry.registry.get_sample_value("ppojob_operator_api_requests_total", {"verb": "get", "code": "0"}) == 1


async def test_refusals_are_told_in_one_line(cluster: KubernetesCluster, namespace: str) -> None:
    job = new_job(namespace)
    wrong = ray_job(job)
    wrong["metadata"]["name"] = "Not A Name"
    with pytest.raises(ClusterUnavailable, match=r"422 .*Not A Name") as caught:
        await cluster.create(wrong)
    assert "\n" not in str(caught.value)


async def test_the_lease_passes_from_one_to_the_next(api: Api, namespace: str) -> None:
    lease = KubernetesLease(api=api, namespace=namespace, name="lease")
    timing = Timing(duration=2, give_up=1.5, retry=0.2)
    one, two = Leadership(lease, "one", timing=timing), Leadership(lease, "two", timing=timing)
    await one.acquire()
    waiting = asyncio.create_task(two.acquire())
    await asyncio.sleep(0.5)
    assert not waiting.done()
    await one.release()
    async with asyncio.timeout(1):
        await waiting
    assert two.valid
    one._held, one._held_since = one._seen, one._monotonic()  # its release is forgotten: as if it had hung meanwhile
    with pytest.raises(LeadershipLost):
        await one.keep()


class Woken:
    """Workers that only write down what they were told."""

    def __init__(self) -> None:
        self.woken: list[Key] = []
        self.forgotten: list[Key] = []
        self.told = asyncio.Event()

    def wake(self, key: Key) -> None:
        self.woken.append(key)
        self.told.set()

    def forget(self, key: Key) -> None:
        self.forgotten.append(key)
        self.told.set()

    async def times(self, key: Key, count: int, seconds: float = 10.0) -> None:
        """Waits until the job's worker was woken so often; other tests' jobs are woken too."""
        async with asyncio.timeout(seconds):
            while self.woken.count(key) < count:
                self.told.clear()
                await self.told.wait()

    async def forgets(self, key: Key, seconds: float = 10.0) -> None:
        async with asyncio.timeout(seconds):
            while key not in self.forgotten:
                self.told.clear()
                await self.told.wait()


@contextlib.asynccontextmanager
async def watching(api: Api, store: Store, workers: Woken, namespace: str) -> AsyncIterator[None]:
    end, older = asyncio.Event(), asyncio.all_tasks()
    tasks = await handlers.spawn(handlers.registry(api, store, workers), [namespace], end)
    running = asyncio.create_task(kopf.run_tasks(tasks, ignored=older))
    yield
    end.set()
    with contextlib.suppress(asyncio.CancelledError):
        await running


@pytest.fixture
async def watched(api: Api, store: Store, namespace: str) -> AsyncIterator[Woken]:
    workers = Woken()
    async with watching(api, store, workers, namespace):
        yield workers


async def test_watches_fill_the_store_and_wake_workers(
    watched: Woken, cluster: KubernetesCluster, api: Api, store: Store, namespace: str
) -> None:
    await cluster.sync()
    job = new_job(namespace)
    key = key_of(job)
    await watched.times(key, 1)

    await cluster.write_status(job, {"phase": "Running"})
    await asyncio.sleep(1.0)
    assert watched.woken.count(key) == 1, "our own status write must wake nobody"

    kubectl("create", "-f", "-", stdin=json.dumps(ray_job(job)))
    await watched.times(key, 2)
    assert [view.attempt for view in await cluster.list_ray_jobs(key)] == [1]

    kubectl("delete", "rayjob", "-n", namespace, f"{job.name}-a1", "--wait=false")
    await watched.times(key, 3)
    assert not await cluster.list_ray_jobs(key)

    stored = await api.get(PPO_JOB.path(namespace, job.name))
    metadata = stored.body["metadata"]
    assert "finalizers" not in metadata
    assert "annotations" not in metadata
    assert {item["manager"] for item in metadata["managedFields"]} == {"kubectl-create", "ppojob-operator"}

    kubectl("delete", "ppojob", "-n", namespace, job.name)
    await watched.forgets(key)
    assert store.job(key.uid) is None


async def test_a_watch_that_brings_nothing_is_told_from_one_that_does(api: Api, namespace: str) -> None:
    """The lists go on, so only their comparison with the watch shows it: what the liveness probe asks."""
    now = 0.0
    store = Store(Watches(monotonic=lambda: now))
    cluster = KubernetesCluster(api, store, namespaces=[namespace])
    workers = Woken()
    async with watching(api, store, workers, namespace):
        job = new_job(namespace)
        await workers.times(key_of(job), 1)
        await cluster.sync()
        now += 2 * LATE_SECONDS
        assert list(store.watches.problems()) == []

    await cluster.write_status(job, {"phase": "Running"})  # nobody watches any more
    await cluster.sync()
    assert list(store.watches.problems()) == []
    now += 2 * LATE_SECONDS
    assert list(store.watches.problems()) == ["watch of ppojobs: has not told for 180 s what a list showed"]


async def test_other_peoples_ray_jobs_are_not_watched(watched: Woken, store: Store, namespace: str) -> None:
    job = new_job(namespace)
    await watched.times(key_of(job), 1)
    foreign = ray_job(job)
    foreign["metadata"] = {"name": f"{job.name}-foreign", "namespace": namespace}
    kubectl("create", "-f", "-", stdin=json.dumps(foreign))
    await asyncio.sleep(1.0)
    assert not store.ray_jobs(job.uid)
    assert RAY_JOB.path(namespace).endswith("/rayjobs")
