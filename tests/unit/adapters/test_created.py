"""What the store knows at once of an object that was created, and what it has to hear from the watch first."""

from typing import Any, cast

import pytest
from tests.unit.adapters.objects import KEY, job, ray_job

from ppojob_operator.adapters.kubernetes import Store
from ppojob_operator.adapters.kubernetes.api import Answer, Api
from ppojob_operator.adapters.kubernetes.cluster import KubernetesCluster
from ppojob_operator.adapters.kubernetes.kinds import PPO_JOB, RAY_JOB
from ppojob_operator.ports import Key


class Echo:
    """An API server that creates whatever it is given."""

    async def change(self, _method: str, _path: str, body: dict[str, Any], **_: Any) -> Answer:
        return Answer(201, body)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def cluster(store: Store) -> KubernetesCluster:
    return KubernetesCluster(cast("Api", Echo()), store)


async def test_a_created_ray_job_is_known_before_the_watch_tells_of_it(cluster: KubernetesCluster, store: Store):
    await cluster.create(ray_job())
    assert [item.attempt for item in store.ray_jobs(KEY.uid)] == [1]
    assert store.put(RAY_JOB, ray_job()) is None, "its worker has made it: no news"


async def test_a_created_ppojob_wakes_its_own_worker(cluster: KubernetesCluster, store: Store):
    child = job(key=Key("ns", "job-abcde-trial-1", "child-uid"))
    await cluster.create(child)
    change = store.put(PPO_JOB, child)
    assert change is not None
    assert change.key.name == "job-abcde-trial-1"
