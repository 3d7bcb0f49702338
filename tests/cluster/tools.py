"""Builds the programs of the node from Go modules, one cached folder per group.

A group is pinned by `tools/<name>/go.mod` and `go.sum`; its folder in the cache is named by their hash and the build
flags, so a build is never repeated and never mixed up. It is made under another name and renamed when complete.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .packages import find_go
from .progress import Progress
from .settings import PACKAGE, Paths
from .shell import ClusterError, run

_PLAIN = "-s -w"
# Without these, clients see v0.0.0-master and refuse to talk to their own server's versions.
_VERSION = "k8s.io/component-base/version"
_KUBERNETES = (
    f"{_PLAIN} -X {_VERSION}.gitVersion=v{{version}} -X {_VERSION}.gitMajor={{major}} -X {_VERSION}.gitMinor={{minor}}"
)
_PROMETHEUS = f"{_PLAIN} -X github.com/prometheus/common/version.Version={{version}}"


@dataclass(frozen=True, slots=True)
class ToolGroup:
    """Programs built together from one go.mod; `version` is that of `module` there."""

    name: str
    module: str
    expectation: str
    ldflags: str = _PLAIN
    # Programs whose package has another name than the program is known by.
    renames: tuple[tuple[str, str], ...] = ()
    # Folders of the module kept beside the programs: manifests that belong to exactly this version.
    assets: tuple[str, ...] = ()

    @property
    def source(self) -> Path:
        """The folder with the pins."""
        return PACKAGE / "tools" / self.name

    @property
    def version(self) -> str:
        """The pinned version, without the leading v."""
        text = (self.source / "go.mod").read_text()
        found = re.search(rf"^\s*{re.escape(self.module)} v(\S+)", text, re.MULTILINE)
        return found[1] if found else "local"

    @property
    def release(self) -> str:
        """The version as people know it: Prometheus 3.16.0 is the module version 0.316.0."""
        return re.sub(r"^0\.3(\d\d)\.", lambda found: f"3.{int(found[1])}.", self.version)

    @property
    def linker_flags(self) -> str:
        """The flags with the version filled in."""
        major, minor = (*self.version.split("."), "0")[:2]
        return self.ldflags.format(version=self.release, major=major, minor=minor)

    @property
    def key(self) -> str:
        """Changes when anything that the build depends on does."""
        digest = hashlib.sha256(repr((self.linker_flags, self.renames, self.assets)).encode())
        for file in sorted(self.source.iterdir()):
            digest.update(f"\0{file.name}\0".encode() + file.read_bytes())
        return digest.hexdigest()[:12]

    def folder(self, paths: Paths) -> Path:
        """Where the finished build is, if it is there."""
        return paths.cache / "tools" / f"{self.name}-{self.key}"

    def program(self, paths: Paths, name: str) -> Path:
        """One built program."""
        return self.folder(paths) / "bin" / name


_PROMETHEUS_OPERATOR = "github.com/prometheus-operator/prometheus-operator"

KUBERNETES = ToolGroup("kubernetes", "k8s.io/kubernetes", "about 8 min", ldflags=_KUBERNETES)
ETCD = ToolGroup("etcd", "go.etcd.io/etcd/server/v3", "about 1 min", renames=(("server", "etcd"),))
CONTAINERD = ToolGroup("containerd", "github.com/containerd/containerd/v2", "about 2 min")
CNI = ToolGroup("cni", "github.com/containernetworking/plugins", "a few seconds")
PAUSE = ToolGroup("pause", "tools/pause", "a few seconds")
COREDNS = ToolGroup("coredns", "github.com/coredns/coredns", "about 3 min")
KUBERAY = ToolGroup("kuberay", "github.com/ray-project/kuberay/ray-operator", "about 2 min", assets=("config",))
HELM = ToolGroup("helm", "helm.sh/helm/v4", "about 2 min")
PROMETHEUS = ToolGroup("prometheus", "github.com/prometheus/prometheus", "about 6 min", ldflags=_PROMETHEUS)
PROMETHEUS_OPERATOR = ToolGroup(
    "prometheus-operator",
    _PROMETHEUS_OPERATOR,
    "about 2 min",
    ldflags=_PROMETHEUS,
    assets=("example/prometheus-operator-crd", "example/rbac/prometheus-operator"),
)
GROUPS = (
    KUBERNETES,
    ETCD,
    CONTAINERD,
    CNI,
    PAUSE,
    KUBERAY,
    COREDNS,
    HELM,
    PROMETHEUS,
    PROMETHEUS_OPERATOR,
)


def build(group: ToolGroup, paths: Paths, progress: Progress) -> None:
    """Build one group into the cache, and drop its older builds once the new one is there."""
    target = group.folder(paths)
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        progress.step(f"{group.name} {group.release}: building", group.expectation),
        tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{group.name}-") as scratch,
    ):
        result = Path(scratch) / "result"
        _compile(group, paths, result / "bin")
        _copy_assets(group, paths, result)
        result.rename(target)
    for old in target.parent.glob(f"{group.name}-{'[0-9a-f]' * 12}"):
        if old != target:
            shutil.rmtree(old)


def link(paths: Paths) -> None:
    """Make the programs findable: everything in one folder for people, the CNI plugins in containerd's."""
    for folder in (paths.bin, paths.cni_bin):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    for group in GROUPS:
        folder = paths.cni_bin if group is CNI else paths.bin
        for program in sorted((group.folder(paths) / "bin").iterdir()):
            (folder / program.name).symlink_to(program)


def _compile(group: ToolGroup, paths: Paths, target: Path) -> None:
    """`tool` is Go's name for everything that the go.mod lists as a tool."""
    target.mkdir(parents=True)
    package = "tool" if group is not PAUSE else "."
    command = ("build", "-trimpath", "-ldflags", group.linker_flags, "-o", f"{target}{os.sep}", package)
    go = find_go(paths)
    run(go, *command, folder=group.source, environment=_go_environment(go, paths))
    for built, name in group.renames:
        (target / built).rename(target / name)


def _copy_assets(group: ToolGroup, paths: Paths, target: Path) -> None:
    """Copy the module's manifests; the module cache is read-only and may be emptied at any time."""
    if not group.assets:
        return
    command = ("list", "-m", "-f", "{{.Dir}}", group.module)
    go = find_go(paths)
    module = Path(run(go, *command, folder=group.source, environment=_go_environment(go, paths)).strip())
    for asset in group.assets:
        if not (module / asset).is_dir():
            raise ClusterError(f"{group.module} {group.version} has no folder {asset}")
        run("cp", "--recursive", "--no-preserve=mode", module / asset, target / Path(asset).name)


def drop_intermediates(paths: Paths) -> None:
    """Remove what Go keeps of its compilations (10 GB): the groups share it while they are built, nobody afterwards."""
    shutil.rmtree(_go_cache(paths), ignore_errors=True)


def _go_cache(paths: Paths) -> Path:
    return paths.cache / "go-build"


def _go_environment(go: Path, paths: Paths) -> dict[str, str]:
    """No C compiler (static programs also run in images from scratch), no surprises from the user's settings."""
    return {
        "GOCACHE": str(_go_cache(paths)),
        "CGO_ENABLED": "0",
        "GOFLAGS": "",
        "GOWORK": "off",
        "GOTOOLCHAIN": "local",
        "PATH": f"{go.parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }
