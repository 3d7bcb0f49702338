"""The node's containerd, through its `ctr` client: images and what is left of containers."""

from __future__ import annotations

import contextlib
import json
from typing import IO

from . import oci
from .daemons import PAUSE_REFERENCE
from .settings import Paths
from .shell import CommandError, run, succeeds
from .tools import CONTAINERD, PAUSE


def ctr(paths: Paths, *arguments: str, stdin: IO[bytes] | None = None) -> str:
    """Run `ctr` in the namespace that the kubelet's containers and images are in."""
    program = CONTAINERD.program(paths, "ctr")
    return run(program, "--address", paths.containerd_socket, "--namespace", "k8s.io", *arguments, stdin=stdin)


def answers(paths: Paths) -> bool:
    """Whether containerd serves requests."""
    program = CONTAINERD.program(paths, "ctr")
    return paths.containerd_socket.exists() and succeeds(
        program, "--address", paths.containerd_socket, "--connect-timeout", "2s", "version", timeout=5
    )


def images(paths: Paths) -> list[str]:
    """References of the images that the node can run."""
    return [name for name in ctr(paths, "images", "ls", "-q").split() if not name.startswith("sha256:")]


def remove_image(paths: Paths, reference: str) -> None:
    """Drop an image; what no other image shares is collected."""
    ctr(paths, "images", "rm", "--sync", reference)


def images_in_use(paths: Paths) -> set[str]:
    """References that a container was made from."""
    lines = ctr(paths, "containers", "ls").splitlines()[1:]
    return {line.split()[1] for line in lines if len(line.split()) > 1}


def layers(paths: Paths, reference: str) -> list[tuple[str, int]]:
    """An image's layers from the bottom up: the digest of the uncompressed content, and the size as it was sent."""
    for line in ctr(paths, "images", "ls").splitlines()[1:]:
        words = line.split()
        if words[0] == reference:
            manifest = json.loads(ctr(paths, "content", "get", words[2]))
            config = json.loads(ctr(paths, "content", "get", manifest["config"]["digest"]))
            sizes = [int(layer["size"]) for layer in manifest["layers"]]
            return list(zip(config["rootfs"]["diff_ids"], sizes, strict=True))
    return []


def import_archive(paths: Paths, archive: IO[bytes]) -> None:
    """Import an image archive from a stream and unpack it; its layers' archives are not kept.

    The unpacked snapshots are what containers run from. An archive may leave out layers whose snapshot is there.
    """
    ctr(paths, "images", "import", "--local", "--discard-unpacked-layers", "-", stdin=archive)


def import_pause(paths: Paths) -> None:
    """Have the pod sandbox's image: no pod starts without it."""
    marker = f"localhost/pause:{PAUSE.key}"
    if marker in images(paths):
        return
    files = {"/pause": PAUSE.program(paths, "pause")}
    with oci.program_image(PAUSE_REFERENCE, files, ["/pause"], "65535:65535", paths.cluster) as archive:
        import_archive(paths, archive)
    ctr(paths, "images", "tag", "--force", PAUSE_REFERENCE, marker)


def forget_containers(paths: Paths) -> bool:
    """Remove the records of containers whose processes were killed; whether there were any."""
    names = ctr(paths, "containers", "ls", "-q").split()
    for name in names:
        with contextlib.suppress(CommandError):
            ctr(paths, "tasks", "rm", "--force", name)
        with contextlib.suppress(CommandError):
            ctr(paths, "containers", "rm", name)
    sandboxes = _sandboxes(paths)
    for name in sandboxes:
        with contextlib.suppress(CommandError):
            ctr(paths, "sandboxes", "rm", "--force", name)
    return bool(names or sandboxes)


def _sandboxes(paths: Paths) -> list[str]:
    """Sandbox records are kept apart from containers'."""
    try:
        return [line.split()[0] for line in ctr(paths, "sandboxes", "ls").splitlines()[1:] if line.split()]
    except CommandError:
        return []
