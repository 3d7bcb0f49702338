"""The watched objects in memory."""

import pytest
from tests.unit.adapters import objects
from tests.unit.adapters.objects import KEY

from ppojob_operator.adapters.kubernetes.kinds import POD, PPO_JOB, RAY_CLUSTER, RAY_JOB
from ppojob_operator.adapters.kubernetes.store import Change, Store
from ppojob_operator.api.v1alpha1.resource import PPOJob


@pytest.fixture
def store() -> Store:
    return Store()


def job_of(store: Store) -> PPOJob:
    job = store.job(KEY.uid)
    assert job is not None
    return job


def test_a_new_job_wakes_its_worker_and_its_own_status_does_not(store: Store) -> None:
    assert store.put(PPO_JOB, objects.job(1)) == Change(KEY)
    assert store.put(PPO_JOB, objects.job(2, status={"phase": "Running"})) is None
    assert job_of(store).status.phase == "Running"


def test_an_edit_and_a_deletion_wake(store: Store) -> None:
    store.put(PPO_JOB, objects.job(1))
    assert store.put(PPO_JOB, objects.job(2, generation=2)) == Change(KEY)
    assert store.put(PPO_JOB, objects.deleting(objects.job(3, generation=2))) == Change(KEY)
    assert store.remove(PPO_JOB, KEY.uid) == Change(KEY, gone=True)
    assert store.job(KEY.uid) is None


def test_older_versions_change_nothing(store: Store) -> None:
    store.put(PPO_JOB, objects.job(10, status={"phase": "Running"}))
    assert store.put(PPO_JOB, objects.job(9, generation=9)) is None
    assert job_of(store).resource_version == "10"


def test_a_version_is_parsed_once(store: Store) -> None:
    store.put(PPO_JOB, objects.job(1))
    first = job_of(store)
    assert job_of(store) is first
    store.put(PPO_JOB, objects.job(2))
    assert job_of(store).resource_version == "2"


def test_only_what_matters_of_a_child_wakes(store: Store) -> None:
    assert store.put(RAY_JOB, objects.ray_job(1, jobStatus="RUNNING")) == Change(KEY)
    assert store.put(RAY_JOB, objects.ray_job(2, jobStatus="RUNNING", rayJobInfo={"startTime": "x"})) is None
    assert store.put(RAY_JOB, objects.ray_job(3, jobStatus="FAILED")) == Change(KEY)
    assert [view.job_status for view in store.ray_jobs(KEY.uid)] == ["FAILED"]


def test_pods_belong_to_their_cluster_by_uid(store: Store) -> None:
    store.put(RAY_CLUSTER, objects.cluster(1, number=1))
    store.put(RAY_CLUSTER, objects.cluster(2, number=2))
    assert store.put(POD, objects.pod(3, number=2)) == Change(KEY)
    first, second = store.clusters(KEY.uid)
    assert first.head is None
    assert second.head is not None


def test_a_pod_may_come_before_its_cluster(store: Store) -> None:
    assert store.put(POD, objects.pod(1)) == Change(KEY)
    store.put(RAY_CLUSTER, objects.cluster(2))
    assert store.clusters(KEY.uid)[0].head is not None


def test_other_peoples_objects_are_passed_over(store: Store) -> None:
    lonely = objects.cluster(1)
    del lonely["metadata"]["ownerReferences"]
    assert store.put(RAY_CLUSTER, lonely) is None
    assert not store.clusters(KEY.uid)


def test_a_removed_child_wakes(store: Store) -> None:
    store.put(RAY_JOB, objects.ray_job(1))
    assert store.remove(RAY_JOB, "rayjob-1") == Change(KEY)
    assert store.remove(RAY_JOB, "rayjob-1") is None
    assert not store.ray_jobs(KEY.uid)


def test_a_full_list_finds_what_the_watch_missed(store: Store) -> None:
    """After 410 Gone a watch starts anew and does not tell of deletions."""
    store.put(RAY_JOB, objects.ray_job(5, attempt=1))
    changes = store.replace(RAY_JOB, None, [objects.ray_job(8, attempt=2)], 9)
    assert changes == [Change(KEY), Change(KEY)]
    assert [view.attempt for view in store.ray_jobs(KEY.uid)] == [2]


def test_a_list_that_began_before_a_creation_does_not_hide_it(store: Store) -> None:
    store.put(RAY_JOB, objects.ray_job(20))
    assert store.replace(RAY_JOB, None, [], 10) == []
    assert len(store.ray_jobs(KEY.uid)) == 1


def test_a_list_that_began_before_a_deletion_does_not_undo_it(store: Store) -> None:
    store.put(RAY_JOB, objects.ray_job(5))
    store.remove(RAY_JOB, "rayjob-1")
    assert store.replace(RAY_JOB, None, [objects.ray_job(5)], 5) == []
    assert not store.ray_jobs(KEY.uid)


def test_a_list_of_one_namespace_leaves_the_others(store: Store) -> None:
    store.put(RAY_JOB, objects.ray_job(1))
    assert store.replace(RAY_JOB, "elsewhere", [], 9) == []
    assert store.ray_jobs(KEY.uid)


def test_pods_that_outlive_their_cluster_are_left_over_until_they_end(store: Store) -> None:
    store.put(RAY_CLUSTER, objects.cluster(1, number=1))
    store.put(POD, objects.pod(2, number=1, head=True))
    assert store.leftover_pods(KEY.uid) == []
    store.remove(RAY_CLUSTER, objects.cluster(1, number=1)["metadata"]["uid"])
    assert len(store.leftover_pods(KEY.uid)) == 1
    assert store.leftover_pods("another") == []
    ended = objects.pod(3, number=1, head=True)
    ended["status"]["phase"] = "Failed"
    assert store.put(POD, ended) == Change(KEY)
    assert store.leftover_pods(KEY.uid) == []


def test_a_pod_that_is_gone_is_not_left_over(store: Store) -> None:
    body = objects.pod(2, number=1, head=True)
    store.put(POD, body)
    assert len(store.leftover_pods(KEY.uid)) == 1
    assert store.remove(POD, body["metadata"]["uid"]) == Change(KEY)
    assert store.leftover_pods(KEY.uid) == []
