"""What a cluster needs beyond Kubernetes itself: DNS, KubeRay, prometheus-operator and one Prometheus."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from . import containerd, oci, settings
from .kubectl import Kubectl
from .settings import PACKAGE, Paths
from .shell import ClusterError, run, wait_until
from .tools import COREDNS, KUBERAY, PROMETHEUS, PROMETHEUS_OPERATOR, ToolGroup

_MANIFESTS = PACKAGE / "manifests"


@dataclass(frozen=True, slots=True)
class ProgramImage:
    """An image of one built program; its tag is the build's hash, so it is imported once per build."""

    name: str
    group: ToolGroup
    program: str
    path: str
    user: str = "65534:65534"

    @property
    def reference(self) -> str:
        """What manifests for our own node name."""
        return f"localhost/{self.name}:{self.group.key}"


_RELOADER = "prometheus-config-reloader"
IMAGES = (
    # Root in its container, to listen on port 53.
    ProgramImage("coredns", COREDNS, "coredns", "/coredns", user="0:0"),
    ProgramImage("kuberay-operator", KUBERAY, "ray-operator", "/manager"),
    ProgramImage("prometheus", PROMETHEUS, "prometheus", "/bin/prometheus"),
    ProgramImage("prometheus-operator", PROMETHEUS_OPERATOR, "operator", "/bin/operator"),
    ProgramImage(_RELOADER, PROMETHEUS_OPERATOR, _RELOADER, f"/bin/{_RELOADER}"),
)


@dataclass(frozen=True, slots=True)
class Addon:
    """There when its workload is available; `upstream` is where its authors' manifests come from, if from them."""

    name: str
    version: str
    namespace: str
    workload: str
    upstream: ToolGroup | None = None


_COREDNS = Addon("coredns", COREDNS.version, "kube-system", "deployment/coredns")
_KUBERAY = Addon("kuberay-operator", KUBERAY.version, "kuberay-system", "deployment/kuberay-operator", KUBERAY)
_OPERATOR = Addon(
    "prometheus-operator",
    PROMETHEUS_OPERATOR.version,
    "monitoring",
    "deployment/prometheus-operator",
    PROMETHEUS_OPERATOR,
)
_PROMETHEUS = Addon("prometheus", PROMETHEUS.release, "monitoring", "statefulset/prometheus-main")
ADDONS = (_COREDNS, _OPERATOR, _PROMETHEUS, _KUBERAY)


def import_images(paths: Paths) -> None:
    """Have the addons' images in containerd, and no older ones."""
    present = containerd.images(paths)
    for image in IMAGES:
        if image.reference not in present:
            files = {image.path: image.group.program(paths, image.program)}
            with oci.program_image(image.reference, files, [image.path], image.user, paths.cluster) as archive:
                containerd.import_archive(paths, archive)
    names = tuple(f"localhost/{image.name}:" for image in IMAGES)
    wanted = {image.reference for image in IMAGES}
    containerd.remove_images(paths, [old for old in present if old.startswith(names) and old not in wanted])


# Through the API server, which answers wherever the caller is.
PROMETHEUS_PROXY = f"/api/v1/namespaces/{_PROMETHEUS.namespace}/services/prometheus:9090/proxy"


def prometheus_url(kubectl: Kubectl) -> str:
    """Where Prometheus answers in the cluster; from the host too, on our own node only."""
    service = kubectl.read("service/prometheus", "--namespace", _PROMETHEUS.namespace)
    return f"http://{service['spec']['clusterIP']}:9090"


def available(kubectl: Kubectl) -> set[str]:
    """Names of the addons whose workload is available, in any namespace: two KubeRays would work against each other."""
    items: list[dict[str, Any]] = kubectl.read("deployments,statefulsets", "--all-namespaces")["items"]
    ready = {
        f"{item['kind'].lower()}/{item['metadata']['name']}"
        for item in items
        if item["status"].get("availableReplicas", 0) > 0
    }
    return {addon.name for addon in ADDONS if addon.workload in ready}


class Installer:
    """Installs what is missing into one cluster.

    On our own node the images are those built here (`own_images`); elsewhere the upstream manifests' own, and DNS is
    the cluster's business.
    """

    def __init__(self, kubectl: Kubectl, folder: Path, *, own_images: bool) -> None:
        """Render into `folder`, which is emptied; nothing is installed yet."""
        self._kubectl = kubectl
        self._folder = folder
        self._own = own_images

    def missing(self) -> list[Addon]:
        """Addons to be had that are not available."""
        there = available(self._kubectl)
        return [addon for addon in ADDONS if addon.name not in there and (self._own or addon is not _COREDNS)]

    def install(self, addons: Collection[Addon]) -> None:
        """Apply the manifests; definitions before what is made of them."""
        self._render()
        namespaces = {addon.namespace for addon in addons} - {"kube-system"}
        self._kubectl.apply_objects([_namespace(name) for name in sorted(namespaces)])
        for addon in addons:
            if addon is _OPERATOR:
                self._kubectl.apply("-f", self._folder / addon.name / "upstream" / "prometheus-operator-crd")
            if addon is _PROMETHEUS:
                definitions = [f"crd/{kind}.monitoring.coreos.com" for kind in ("prometheuses", "podmonitors")]
                self._kubectl("wait", "--for=condition=Established", "--timeout=30s", *definitions)
            if addon.upstream:
                self._kubectl.apply("-f", "-", stdin=self._kustomized(addon.name))
            else:
                self._kubectl.apply("-f", self._folder / f"{addon.name}.yaml")

    def wait(self, seconds: float = 180) -> None:
        """Wait until every addon is available; say which one is not."""
        try:
            wait_until("addons available", lambda: not self.missing(), seconds, interval=0.3)
        except ClusterError as error:
            names = ", ".join(addon.name for addon in self.missing())
            raise ClusterError(f"{error}; missing: {names} (see kubectl get pods -A)") from error

    def _render(self) -> None:
        """Fill in our manifests and put the upstream ones beside them, where kustomize can find them."""
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.copytree(_MANIFESTS, self._folder)
        values = self._values()
        for file in self._folder.rglob("*.yaml"):
            file.write_text(Template(file.read_text()).substitute(values))
        for addon in ADDONS:
            if addon.upstream:
                upstream = self._folder / addon.name / "upstream"
                upstream.mkdir()
                for asset in addon.upstream.assets:
                    source = addon.upstream.folder(self._kubectl.paths) / Path(asset).name
                    run("cp", "--recursive", source, upstream)

    def _values(self) -> dict[str, str]:
        """What the manifests' placeholders stand for."""
        values = {"DNS_SERVICE_IP": settings.DNS_SERVICE_IP}
        for image in IMAGES:
            name, _, tag = image.reference.rpartition(":")
            key = image.name.replace("-", "_").upper()
            values |= {key: image.reference, f"{key}_NAME": name, f"{key}_TAG": tag}
        values["PROMETHEUS_VERSION"] = f"v{PROMETHEUS.release}"
        if not self._own:
            values["PROMETHEUS"] = f"quay.io/prometheus/prometheus:v{PROMETHEUS.release}"
        return values

    def _kustomized(self, name: str) -> str:
        flavour = "own-node" if self._own else "elsewhere"
        return self._kubectl("kustomize", self._folder / name / flavour, "--load-restrictor=LoadRestrictionsNone")


def _namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
