"""Whether a Ray cluster is needed, is there, and can be used."""

import dataclasses
from datetime import timedelta

import pytest
from tests.support.observations import CLUSTER, HEAD, RAY_JOB, observation, reached

from ppojob_contract.protocol import LockState
from ppojob_operator.api.v1alpha1.status import PPOJobStatus
from ppojob_operator.domain.decisions import RemoveCluster, RemoveRayJob, Wait
from ppojob_operator.domain.observation import MonitorView, Reach
from ppojob_operator.domain.provision import (
    cluster_needed,
    describe,
    outdated,
    provision,
    remove_everything,
    waiting_for_driver,
    waiting_for_old_pods,
)

TWO, FIVE = timedelta(seconds=2), timedelta(seconds=5)
GOING = dataclasses.replace(CLUSTER, deleting=True)
NO_HEAD = dataclasses.replace(CLUSTER, head=None)


@pytest.mark.parametrize(
    ("status", "clusters", "number"),
    [
        (PPOJobStatus(), (), 1),
        (PPOJobStatus(cluster_number=1), (CLUSTER,), None),
        (PPOJobStatus(cluster_number=3), (), 3),
        (PPOJobStatus(cluster_number=3), (CLUSTER,), 3),
        (PPOJobStatus(cluster_number=3, cluster_uid="seen"), (), 4),
    ],
)
def test_a_number_that_was_seen_is_never_used_again(status, clusters, number):
    assert cluster_needed(observation(status, clusters=clusters)) == number


@pytest.mark.parametrize(
    ("clusters", "monitor", "expected"),
    [
        ((GOING,), reached(), Wait(reason="ClusterNotReady", message=describe(GOING), requeue=FIVE)),
        (
            (CLUSTER,),
            MonitorView(reach=Reach.UNREACHABLE, message="refused"),
            Wait(reason="MonitorUnreachable", message="refused", requeue=TWO),
        ),
        ((CLUSTER,), MonitorView(reach=Reach.OK), Wait(reason="MonitorUnreachable", message="", requeue=TWO)),
        (
            (CLUSTER,),
            dataclasses.replace(reached(lock=LockState.FREE), reach=Reach.UNREACHABLE),
            Wait(reason="MonitorUnreachable", message="", requeue=TWO),
        ),
        ((CLUSTER,), reached(lock=LockState.HELD), None),
        ((CLUSTER,), reached(lock=LockState.FREE), None),
    ],
)
def test_a_cluster_can_be_used_when_it_is_ready_and_answers(clusters, monitor, expected):
    accepted = observation(PPOJobStatus()).accepted
    assert accepted is not None
    status = PPOJobStatus(cluster_number=1, cluster_hash=accepted.cluster_hash)
    assert provision(observation(status, clusters=clusters, monitor=monitor), accepted) == expected


def test_a_driver_that_runs_is_waited_for():
    waiting = Wait(reason="DriverStillRunning", message="an earlier driver has not ended yet", requeue=TWO)
    assert waiting_for_driver(observation(PPOJobStatus(), monitor=reached(lock=LockState.HELD))) == waiting
    assert waiting_for_driver(observation(PPOJobStatus(), monitor=reached(lock=LockState.FREE))) is None


def test_old_pods_are_waited_for_and_named():
    assert waiting_for_old_pods(observation(PPOJobStatus())) is None
    wait = waiting_for_old_pods(observation(PPOJobStatus(), leftover_pods=tuple("abcdefg")))
    assert wait == Wait(
        reason="OldPodsTerminating",
        message="waiting for the pods of an earlier RayCluster to end: a, b, c, d, e (where their node is gone for "
        "good: kubectl delete pod --force)",
        requeue=TWO,
    )


def test_jobs_go_before_clusters_and_nothing_twice():
    dying = dataclasses.replace(RAY_JOB, deleting=True)
    other = dataclasses.replace(RAY_JOB, name="job-a2", uid="job-2", attempt=2)

    def answer(*, jobs=(), clusters=()):
        return remove_everything(observation(PPOJobStatus(), jobs=jobs, clusters=clusters))

    assert answer(jobs=(dying, other), clusters=(CLUSTER,)) == RemoveRayJob(attempt=2, name="job-a2", uid="job-2")
    assert answer(jobs=(dying,), clusters=(CLUSTER,)) == Wait(
        reason="DeletingRayJob", message="RayJob job-a1 is being deleted", requeue=TWO
    )
    assert answer(clusters=(GOING, CLUSTER)) == RemoveCluster(number=1, name="job-c1", uid="cluster-1")
    assert answer(clusters=(GOING,)) == Wait(reason="DeletingRayCluster", message=describe(GOING), requeue=TWO)
    assert answer() is None


def test_a_cluster_is_outdated_when_it_is_there_and_was_made_from_other_fields():
    seen = observation(PPOJobStatus(cluster_number=1, cluster_hash="old"), clusters=(CLUSTER,))
    assert seen.accepted is not None
    assert outdated(seen, seen.accepted)
    assert not outdated(observation(PPOJobStatus(cluster_number=1, cluster_hash="old")), seen.accepted)
    current = PPOJobStatus(cluster_number=1, cluster_hash=seen.accepted.cluster_hash)
    assert not outdated(observation(current, clusters=(CLUSTER,)), seen.accepted)


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        (None, "the RayCluster is being created"),
        (GOING, "RayCluster job-c1 is being deleted: waiting for pod head to end"),
        (NO_HEAD, "RayCluster job-c1 has no head pod yet"),
        (dataclasses.replace(NO_HEAD, message="quota"), "quota"),
        (
            dataclasses.replace(CLUSTER, head=dataclasses.replace(HEAD, failed=True, message="evicted")),
            "head pod head failed: evicted",
        ),
        (
            dataclasses.replace(CLUSTER, head=dataclasses.replace(HEAD, ready=False)),
            "head pod head is not ready: starting",
        ),
        (
            dataclasses.replace(CLUSTER, head=dataclasses.replace(HEAD, ready=False, message="ImagePullBackOff")),
            "head pod head is not ready: ImagePullBackOff",
        ),
        (dataclasses.replace(CLUSTER, workers_ready=1, workers_desired=2), "1 of 2 workers are ready"),
        (
            dataclasses.replace(CLUSTER, workers_ready=1, workers_desired=2, message="quota"),
            "1 of 2 workers are ready: quota",
        ),
    ],
)
def test_a_person_is_told_what_is_missing(cluster, words):
    assert describe(cluster) == words
