"""The life of a release on a real cluster: a user installs, upgrades and uninstalls it while a job trains."""

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.kube import RELEASE, REPOSITORY, SYSTEM, Kube, wait_for
from tests.support.plain_prometheus import plain_prometheus
from tests.support.release import CRD, EARLIER, Release, json_lines
from tests.support.run import Run

from ppojob_operator.adapters.kubernetes.kinds import LEASE, LEASE_VERBS, VERBS

pytestmark = [pytest.mark.cluster, pytest.mark.e2e, pytest.mark.slow]

(PREVIOUS,) = (Path(__file__).parent / "previous").glob("*.tgz")
"""The chart that was released before this one, as Helm packaged it."""

TWO = "replicas=2"
LEASE_RIGHTS = {(LEASE.group, LEASE.plural): set(LEASE_VERBS)}
RIGHTS = {resource: set(verbs) for resource, verbs in VERBS.items()}
GIVEN_BACK_SECONDS, LOST_SECONDS = 8, 25
"""A Lease is free when it is given back, and 15 s after its holder fell silent; followers look every 2 s."""


@pytest.fixture
def release() -> Iterator[Release]:
    made = Release.none_yet(Kube.connect())
    yield made
    made.uninstall()


@pytest.fixture
def namespaces(release: Release, request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    names = ("chart-a", "chart-b")
    for name in names:
        release.kube.fresh_namespace(name)
    yield names
    if request.session.testsfailed:
        print(release.kube.kubectl("get", "ppojobs,pods,events", "-n", names[0], "-o", "wide"))
        print(release.logs())
    for name in names:  # pods too: a namespace that still has some is looked at again after their grace only
        release.kube.kubectl("delete", CRD, "--all", "-n", name, "--cascade=foreground", "--timeout=170s")
    release.kube.kubectl("delete", "namespace", *names, "--wait=false")


def minimal(release: Release, namespace: str, **training: int) -> Run:
    run = Run.of(release.kube, namespace, (REPOSITORY / "examples" / "minimal.yaml").read_text())
    run.spec["training"] |= training
    return run


def training_objects(run: Run) -> dict[str, tuple[Any, ...]]:
    """Everything of the job that an operator could touch: UID, generation, restarts of containers."""
    found: dict[str, tuple[Any, ...]] = {}
    for kind in ("ppojobs.rlhf.dev", "rayclusters", "rayjobs", "pods", "secrets", "controllerrevisions"):
        for item in run.kube.items(kind, run.namespace):
            metadata, status = item["metadata"], item.get("status", {})
            restarts = [one["restartCount"] for one in status.get("containerStatuses", [])]
            identity = (metadata["uid"], metadata.get("generation"), metadata.get("finalizers"), restarts)
            found[f"{kind}/{metadata['name']}"] = identity
    return found


def steps_done(run: Run) -> int:
    """By the job's journal: no operator is needed to know."""
    return max((row.step for row in run.journal(1) if row.step), default=0)


def wait_for_steps(run: Run, more: int) -> None:
    goal = steps_done(run) + more
    wait_for(f"step {goal}", lambda: steps_done(run) >= goal, seconds=120, every=0.3)


def wait_for_another_leader(release: Release, old: str, seconds: float) -> float:
    began = time.monotonic()
    wait_for("another leader", lambda: release.leader() not in {"", old}, seconds=seconds, every=0.1)
    return time.monotonic() - began


@contextmanager
def frozen(pod: str) -> Iterator[None]:
    """The operator of that pod neither works nor ends, as on a node that is lost."""
    identity = f"PPOJOB_OPERATOR_IDENTITY={pod}".encode()
    (process,) = [
        int(folder.name)
        for folder in Path("/proc").glob("[0-9]*")
        if identity in _environment(folder) and b"ppojob_operator" in (folder / "cmdline").read_bytes()
    ]
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def _environment(process: Path) -> list[bytes]:
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def test_upgrade_failover_and_uninstall_change_nothing_for_a_training(
    release: Release, namespaces: tuple[str, str], tmp_path: Path
) -> None:
    release.install(release.package_previous(PREVIOUS, tmp_path / "previous"), "statusIntervalSeconds=1")
    assert EARLIER in _columns(release).values()
    run = minimal(release, namespaces[0], totalSteps=2000)
    run.apply()
    run.wait_for_step(3)
    before = training_objects(run)

    began, step = time.monotonic(), steps_done(run)
    new = release.package(tmp_path)
    release.upgrade(new, "statusIntervalSeconds=1", TWO, "log.level=debug", "serviceMonitor.enabled=true")
    print(f"upgrade: {time.monotonic() - began:.0f} s, {steps_done(run) - step} steps meanwhile")
    _the_crd_is_todays(release)
    run.wait_for_step(steps_done(run) + 2)
    assert training_objects(run) == before

    leader = release.leader()
    release.kube.kubectl("delete", "pod", leader, "-n", SYSTEM, "--wait=false")
    print(f"given back: {wait_for_another_leader(release, leader, GIVEN_BACK_SECONDS):.1f} s")
    run.wait_for_step(steps_done(run) + 2)
    lost = release.leader()
    wait_for("a second operator", lambda: len(release.pods()) == 2, seconds=30)
    with frozen(lost):
        print(f"lost: {wait_for_another_leader(release, lost, LOST_SECONDS):.1f} s")
        run.wait_for_step(steps_done(run) + 2)
    _the_log_is_json_and_has_no_secret(release, run)
    assert release.own_rights(run.namespace) == RIGHTS
    assert release.own_rights(SYSTEM) == RIGHTS | LEASE_RIGHTS
    assert "readyz: ok" in release.test()
    _both_are_scraped_and_one_can_be_missed(release)
    assert training_objects(run) == before
    status = run.status
    assert (status["phase"], status["attempt"]["number"], status["rollbacks"], status["restarts"]) == (
        "Running",
        1,
        0,
        0,
    )

    release.uninstall()
    wait_for_steps(run, 3)
    assert training_objects(run) == before
    _its_user_can_delete_it_without_an_operator(run)


def _both_are_scraped_and_one_can_be_missed(release: Release) -> None:
    """Through the ServiceMonitor, by the Prometheus of the Prometheus operator."""
    query = f'up{{namespace="{SYSTEM}",service="{RELEASE}",endpoint="metrics"}} == 1'
    wait_for(query, lambda: len(release.kube.values(query)) == 2, seconds=60)
    # By its job: the last samples of the PodMonitor that went with the upgrade still count for five minutes.
    leaders = f'sum(ppojob_operator_leader{{job="{RELEASE}"}})'
    wait_for(leaders, lambda: release.kube.values(leaders) == [1.0], seconds=30)
    wait_for("one of two may be evicted", lambda: _budget(release) == (2, 1), seconds=60)


def _budget(release: Release) -> tuple[int, int]:
    budget = release.kube.get("poddisruptionbudget", RELEASE, SYSTEM)
    assert budget is not None
    return budget["status"]["currentHealthy"], budget["status"]["disruptionsAllowed"]


def _the_crd_is_todays(release: Release) -> None:
    generated = yaml.safe_load((REPOSITORY / "crds" / "rlhf.dev_ppojobs.yaml").read_text())
    crd = release.kube.kubectl.read("crd", CRD)
    assert crd["spec"]["versions"][0]["schema"] == generated["spec"]["versions"][0]["schema"]
    assert EARLIER not in _columns(release).values()


def _columns(release: Release) -> dict[str, str]:
    """Printed columns of the CRD with their descriptions."""
    version = release.kube.kubectl.read("crd", CRD)["spec"]["versions"][0]
    return {column["name"]: column.get("description", "") for column in version["additionalPrinterColumns"]}


def _the_log_is_json_and_has_no_secret(release: Release, run: Run) -> None:
    """At level debug, so that the libraries speak too."""
    log = release.logs()
    lines = json_lines(log)
    assert any(line["level"] == "debug" for line in lines)
    told = next(line for line in lines if line.get("decision") == "Wait")
    assert (told["namespace"], told["ppojob"], told["attempt"]) == (run.namespace, run.name, 1)
    assert told["reason"]
    (secret,) = run.kube.items("secrets", run.namespace)
    token = run.kube.kubectl(
        *("get", "secret", secret["metadata"]["name"], "-n", run.namespace),
        *("-o", "go-template={{.data.token | base64decode}}"),
    )
    assert len(token) >= 32
    assert token not in log
    assert not re.search(r"eyJ[\w-]{20}", log), "no service account's token"


def _its_user_can_delete_it_without_an_operator(run: Run) -> None:
    """A user with the role `edit` in the namespace, as `kubectl create rolebinding` gives it."""
    layout = run.layout
    run.kube.kubectl("create", "rolebinding", "jane", "--clusterrole=edit", "--user=jane", "-n", run.namespace)
    job = ("ppojobs.rlhf.dev", run.name, "-n", run.namespace)
    run.kube.kubectl("delete", *job, "--as=jane", "--wait", "--timeout=20s")
    wait_for("no Ray pods", lambda: not run.kube.items("pods", run.namespace), seconds=120)
    assert not run.kube.items("rayclusters,rayjobs", run.namespace)
    assert run.kube.get("pvc", run.spec["storage"]["claimName"], run.namespace)
    assert layout.attempt(1).journal.exists()
    assert list(layout.attempt(1).checkpoints.glob("global_step_*/manifest.json"))


def test_namespaced_and_scraped_by_annotations(release: Release, namespaces: tuple[str, str], tmp_path: Path) -> None:
    served, other = namespaces
    settings = (f"watchNamespaces={{{served}}}", "scrapeAnnotations.enabled=true", "podMonitor.enabled=false")
    chart = release.package(tmp_path)
    release.install(chart, *settings)
    assert release.own_rights(served) == RIGHTS
    assert release.own_rights(SYSTEM) == LEASE_RIGHTS
    assert release.own_rights(other) == {}
    elsewhere = minimal(release, other)
    elsewhere.apply()
    run = minimal(release, served, totalSteps=2000)
    run.apply()
    with plain_prometheus(release.kube, tmp_path, [SYSTEM, served]) as prometheus:
        job = f'{{namespace="{served}",ppojob="{run.name}"}}'
        for query in (f"ppojob_rollbacks_total{job}", f"ppojob_attempt{job}"):
            wait_for(query, lambda query=query: prometheus.query(query) or None, seconds=120)  # type: ignore[misc]
        pods = {item["metric"]["pod"] for item in prometheus.query("up == 1")}
    assert pods == {item["metadata"]["name"] for item in (*release.pods(), *run.kube.items("pods", served))}
    assert elsewhere.status == {}, "nobody serves that namespace"
    # It can be installed again where it was uninstalled: the CRD that was kept is taken over.
    release.uninstall()
    assert run.status["phase"] in {"Provisioning", "Running"}
    release.install(chart)
    wait_for("the other namespace is served now", lambda: elsewhere.status.get("phase"), seconds=30)


def test_a_fresh_install_with_default_values_trains(
    release: Release, namespaces: tuple[str, str], tmp_path: Path
) -> None:
    release.install(release.package(tmp_path))
    run = minimal(release, namespaces[0])
    run.apply()
    status = run.wait_for_end()
    assert (status["phase"], status["progress"]["step"]) == ("Succeeded", 10)
    assert "CheckpointConfirmed" in run.reasons()
