"""A cluster that is not our own node: what is there is used, and what is somebody else's is left alone."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.cluster import addons, images, lifecycle, status, targets, tools, volumes
from tests.cluster.kubectl import Kubectl
from tests.cluster.registry import VARIABLE, Registry
from tests.cluster.settings import Paths
from tests.cluster.shell import ClusterError
from tests.cluster.targets import Target


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """Nothing built; programs are those of the folder `bin`, where tests put theirs."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.defpath}")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv(VARIABLE, raising=False)
    return Paths(cache=tmp_path / "cache", cluster=tmp_path / "cluster")


def program(where: Paths, name: str, script: str) -> Path:
    """A program that writes down how it was called."""
    path = where.cache.parent / "bin" / name
    path.write_text(f'#!/bin/sh\necho "$KUBECONFIG: $@" >> {path}.calls\n{script}\n')
    path.chmod(0o755)
    return path


def calls(path: Path) -> list[str]:
    log = Path(f"{path}.calls")
    return log.read_text().splitlines() if log.exists() else []


def test_a_cluster_that_answers_comes_first(where: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    kubectl = program(where, "kubectl", "exit 0")
    program(where, "kind", "exit 0")
    program(where, "docker", "exit 0")
    monkeypatch.setenv("KUBECONFIG", "/theirs.conf")
    assert targets.choose(where) is Target.EXISTING
    assert targets.kubeconfig(Target.EXISTING, where) == Path("/theirs.conf")
    assert calls(kubectl) == ["/theirs.conf: get --raw /readyz"]
    with pytest.raises(ClusterError, match="not ours"):
        lifecycle.down(where)


@pytest.mark.parametrize(("docker", "chosen"), [("exit 0", Target.KIND), ("exit 1", Target.NODE)])
def test_kind_where_docker_runs(where: Paths, docker: str, chosen: Target) -> None:
    program(where, "kind", "exit 0")
    program(where, "docker", docker)
    assert targets.choose(where) is chosen


KIND = """case "$1 $2" in
"get clusters") echo %s ;;
"get nodes") echo ppojob-dev-control-plane ;;
esac"""


def test_kinds_own_configuration_is_no_foreign_cluster(where: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    program(where, "kubectl", "exit 0")
    program(where, "kind", "exit 0")
    program(where, "docker", "exit 0")
    monkeypatch.setenv("KUBECONFIG", str(targets.kind_kubeconfig(where)))
    assert targets.choose(where) is Target.KIND


@pytest.mark.parametrize(
    ("clusters", "api", "there"),
    [("ppojob-dev", "exit 0", True), ("ppojob-dev", "exit 1", False), ("other", "exit 0", False)],
)
def test_a_kind_cluster_is_there_when_it_answers(where: Paths, clusters: str, api: str, there: bool) -> None:
    kind = program(where, "kind", KIND % clusters)
    kubectl = program(where, "kubectl", api)
    assert targets.kind_answers(where) is there
    conf = targets.kind_kubeconfig(where)
    if clusters == "ppojob-dev":
        assert calls(kind)[-1].endswith(f": export kubeconfig --name ppojob-dev --kubeconfig {conf}")
        assert calls(kubectl)[-1].endswith(f": --kubeconfig {conf} get --raw /readyz")


def test_what_does_not_answer_is_replaced(where: Paths) -> None:
    kind = program(where, "kind", "exit 0")
    targets.kind_create(where)
    conf = targets.kind_kubeconfig(where)
    deleted, created = (call.removeprefix(": ") for call in calls(kind))
    assert deleted == f"delete cluster --name ppojob-dev --kubeconfig {conf}"
    assert created == f"create cluster --name ppojob-dev --wait 120s --kubeconfig {conf}"


def test_an_image_that_kind_has_is_not_loaded_again(where: Paths) -> None:
    kind = program(where, "kind", KIND % "ppojob-dev")
    docker = program(where, "docker", 'if [ "$1" = exec ]; then echo localhost/ppojob-operator:1; fi')
    buildah = program(where, "buildah", "exit 1")
    where.cache.mkdir()
    assert images.load(where, "localhost/ppojob-operator:1") == "localhost/ppojob-operator:1"
    assert calls(docker)[-1].endswith("images ls --quiet name==localhost/ppojob-operator:1")
    assert not calls(buildah)
    with pytest.raises(ClusterError, match="buildah"):
        images.load(where, "localhost/ppojob-operator:2")
    assert not any("load" in call for call in calls(kind))


def test_a_foreign_addon_is_listed_without_our_version(where: Paths) -> None:
    program(where, "kind", "exit 0")
    program(where, "docker", "exit 0")
    program(where, "kubectl", """echo '{"items": []}'""")
    table, well = status.status(where)
    assert [line.split() for line in table.splitlines()[1:-1]] == [
        ["addon", addon.name, "missing"] for addon in addons.ADDONS
    ]
    assert not well


def test_elsewhere_no_address_is_given_that_only_the_cluster_reaches(where: Paths) -> None:
    program(where, "kind", "exit 0")
    program(where, "docker", "exit 0")
    program(where, "kubectl", """echo '{"spec": {"clusterIP": "10.96.0.7"}}'""")
    (where.cache / "tools" / f"helm-{tools.HELM.key}" / "bin").mkdir(parents=True)
    assert status.exports(where).splitlines() == [
        f"export KUBECONFIG={targets.kind_kubeconfig(where)}",
        f"export PATH={tools.HELM.folder(where)}/bin:$PATH",
    ]


@pytest.mark.parametrize("target", [Target.EXISTING, Target.KIND])
def test_storage_of_another_cluster_is_not_touched(
    where: Paths, monkeypatch: pytest.MonkeyPatch, target: Target
) -> None:
    kubectl = program(where, "kubectl", "exit 0")
    monkeypatch.setenv("KUBECONFIG", "/theirs.conf")
    assert volumes.refresh(Kubectl(where, targets.kubeconfig(target, where)), where) == []
    assert calls(kubectl) == []


def test_a_kuberay_in_another_namespace_is_not_installed_again(where: Paths) -> None:
    theirs: dict[str, Any] = {
        "kind": "Deployment",
        "metadata": {"name": "kuberay-operator", "namespace": "default"},
        "status": {"availableReplicas": 1},
    }
    program(where, "kubectl", f"echo '{json.dumps({'items': [theirs]})}'")
    kubectl = Kubectl(where, Path("/theirs.conf"))
    assert addons.available(kubectl) == {"kuberay-operator"}
    missing = addons.Installer(kubectl, where.cache / "addons", own_images=False).missing()
    assert {addon.name for addon in missing} == {"prometheus-operator", "prometheus"}


def test_no_other_cluster_is_made_where_the_chosen_one_does_not_answer(
    where: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(where, "kubectl", "exit 1")
    monkeypatch.setenv("KUBECONFIG", "/theirs.conf")
    with pytest.raises(ClusterError, match="is /theirs"):
        targets.choose(where)


def test_a_cluster_without_a_way_for_images_is_refused_before_any_effect(
    where: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl = program(where, "kubectl", "exit 0")
    monkeypatch.setenv("KUBECONFIG", "/theirs.conf")
    with pytest.raises(ClusterError, match=VARIABLE):
        lifecycle.up(where, for_images=True)
    with pytest.raises(ClusterError, match=VARIABLE):
        images.load(where, "localhost/ppojob-operator:1")
    assert set(calls(kubectl)) == {"/theirs.conf: get --raw /readyz"}
    assert not where.cache.exists()


@pytest.mark.parametrize(("scheme", "verify"), [("", "true"), ("https://", "true"), ("http://", "false")])
def test_images_go_through_the_registry(
    where: Paths, monkeypatch: pytest.MonkeyPatch, scheme: str, verify: str
) -> None:
    program(where, "kubectl", "exit 0")
    buildah = program(where, "buildah", "exit 0")
    monkeypatch.setenv("KUBECONFIG", "/theirs.conf")
    monkeypatch.setenv(VARIABLE, f"{scheme}registry.example:5000/team/")
    there = images.load(where, "localhost/ppojob-operator:1")
    assert there == "registry.example:5000/team/ppojob-operator:1"
    (call,) = calls(buildah)
    assert f"push --quiet --tls-verify={verify} localhost/ppojob-operator:1 docker://{there}" in call


@pytest.mark.parametrize("wrong", ["ftp://host", "host/Upper", "user@host", "host:port/x", "a b", "http://"])
def test_a_registry_that_cannot_be_one_is_refused(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setenv(VARIABLE, wrong)
    with pytest.raises(ClusterError, match=VARIABLE):
        Registry.chosen()
