"""Which cluster `up` gives: one that is there already, kind where Docker runs, or the node of our own."""

from __future__ import annotations

import enum
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

from . import kubectl
from .settings import NODE_NAME, Paths
from .shell import ClusterError, run, succeeds


class Target(enum.Enum):
    """The three kinds of cluster."""

    EXISTING = "the cluster that KUBECONFIG leads to"
    KIND = "kind"
    NODE = "a node of our own"


def choose(paths: Paths) -> Target:
    """Prefer what the user points to, then kind, then our own node; a KUBECONFIG of our own node is no foreign one.

    Where the cluster that the user points to does not answer, no other is made in its place.
    """
    given = os.environ.get("KUBECONFIG", "")
    own = {str(paths.admin_kubeconfig), str(kind_kubeconfig(paths))}
    if given and given not in own:
        program = kubectl.find(paths)
        if succeeds(program, "get", "--raw", "/readyz", timeout=10):
            return Target.EXISTING
        raise ClusterError(
            f"KUBECONFIG is {given}, but with it `{program.name} get --raw /readyz` fails. Mend it, or unset "
            "it for a cluster on this machine"
        )
    if shutil.which("kind") and shutil.which("docker") and succeeds("docker", "info", timeout=10):
        return Target.KIND
    return Target.NODE


def kubeconfig(target: Target, paths: Paths) -> Path:
    """How to reach it."""
    if target is Target.EXISTING:
        return Path(os.environ["KUBECONFIG"])
    return kind_kubeconfig(paths) if target is Target.KIND else paths.admin_kubeconfig


def kind_kubeconfig(paths: Paths) -> Path:
    """Apart from the user's own configuration, which kind would otherwise change."""
    return paths.cache / "kind.conf"


def kind_answers(paths: Paths) -> bool:
    """Whether our kind cluster is there and serves requests; its kubeconfig is written anew."""
    if NODE_NAME not in run("kind", "get", "clusters").split():
        return False
    conf = kind_kubeconfig(paths)
    return succeeds("kind", "export", "kubeconfig", "--name", NODE_NAME, "--kubeconfig", conf) and succeeds(
        kubectl.find(paths), "--kubeconfig", conf, "get", "--raw", "/readyz", timeout=10
    )


def kind_create(paths: Paths) -> None:
    """A fresh kind cluster in the place of one that does not answer."""
    paths.cache.mkdir(parents=True, exist_ok=True)
    kind_down(paths)
    run("kind", "create", "cluster", "--name", NODE_NAME, "--wait", "120s", "--kubeconfig", kind_kubeconfig(paths))


def kind_down(paths: Paths) -> None:
    """Delete the kind cluster."""
    run("kind", "delete", "cluster", "--name", NODE_NAME, "--kubeconfig", kind_kubeconfig(paths))


def kind_has(reference: str) -> bool:
    """Whether the kind cluster's node has an image of this name."""
    nodes = run("kind", "get", "nodes", "--name", NODE_NAME).split()
    listing = ("ctr", "--namespace=k8s.io", "images", "ls", "--quiet", f"name=={reference}")
    return bool(nodes) and all(reference in run("docker", "exec", node, *listing).split() for node in nodes)


def kind_load(archive: IO[bytes], scratch: Path) -> None:
    """Load an image archive: kind reads files only."""
    with tempfile.NamedTemporaryFile(dir=scratch, suffix=".tar") as file:
        shutil.copyfileobj(archive, file)
        file.flush()
        run("kind", "load", "image-archive", file.name, "--name", NODE_NAME)
