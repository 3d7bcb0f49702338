"""The node's containerd, through its `ctr` client: images and what is left of containers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
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
    return [name for name in _manifests(paths) if not _is_identifier(name)]


def remove_images(paths: Paths, references: Iterable[str]) -> None:
    """Drop images; what no other image shares is collected.

    The kubelet's interface adds a second record to each image, named by its digest, which would keep the content.
    """
    dropped = list(references)
    manifests = _manifests(paths)
    kept = {digest for name, digest in manifests.items() if name not in dropped and not _is_identifier(name)}
    dropped += [name for name, digest in manifests.items() if _is_identifier(name) and digest not in kept]
    if dropped:
        ctr(paths, "images", "rm", "--sync", *dropped)


def images_in_use(paths: Paths) -> set[str]:
    """References that a container was made from."""
    lines = ctr(paths, "containers", "ls").splitlines()[1:]
    return {line.split()[1] for line in lines if len(line.split()) > 1}


def layers(paths: Paths, reference: str) -> list[tuple[str, int]]:
    """An image's layers from the bottom up: the digest of the uncompressed content, and the size as it was sent."""
    manifest = json.loads(ctr(paths, "content", "get", _manifests(paths)[reference]))
    config = json.loads(ctr(paths, "content", "get", manifest["config"]["digest"]))
    sizes = [int(layer["size"]) for layer in manifest["layers"]]
    return list(zip(config["rootfs"]["diff_ids"], sizes, strict=True))


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


def _manifests(paths: Paths) -> dict[str, str]:
    """Every image record, and the digest of its manifest."""
    rows = (line.split() for line in ctr(paths, "images", "ls").splitlines()[1:])
    return {row[0]: row[2] for row in rows}


def _is_identifier(name: str) -> bool:
    return name.startswith("sha256:")


def _sandboxes(paths: Paths) -> list[str]:
    """Sandbox records are kept apart from containers'."""
    try:
        return [line.split()[0] for line in ctr(paths, "sandboxes", "ls").splitlines()[1:] if line.split()]
    except CommandError:
        return []
