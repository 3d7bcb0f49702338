"""Container images without Docker: built by buildah, handed to the node's containerd, to kind, or to a registry.

buildah keeps its images and layers in our cache, so that a change of the last lines of a Dockerfile repeats only those.
On the way to containerd, layers that it has already unpacked are left out: see `load`.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import base_image, containerd, oci, packages, registry, targets
from .progress import Progress
from .settings import REPOSITORY, Paths
from .shell import ClusterError, CommandError, run, succeeds, tail
from .targets import Target

_CA_IN_IMAGE = "/etc/ssl/certs/ca-certificates.crt"
_PIP_SETTINGS = ("INDEX_URL", "EXTRA_INDEX_URL", "TRUSTED_HOST", "PROXY", "TIMEOUT", "DEFAULT_TIMEOUT", "RETRIES")


@dataclass(frozen=True, slots=True)
class ProjectImage:
    """One of this project's images: `inputs` are globs of all files that its Dockerfile copies."""

    dockerfile: str
    target: str | None
    inputs: tuple[str, ...]
    base_argument: str = "BASE_IMAGE"


_TRAINER = ("trainer-image/**/*", "operator/ppojob_contract/**/*")
PROJECT_IMAGES = {
    "operator": ProjectImage("operator/Dockerfile", None, ("operator/**/*",)),
    "trainer-cpu": ProjectImage("trainer-image/Dockerfile", "cpu", _TRAINER),
    "trainer-cuda": ProjectImage("trainer-image/Dockerfile", "cuda", _TRAINER, "CUDA_BASE_IMAGE"),
}
NEEDED = ("operator", "trainer-cpu")
"""By the demo and the tests."""


def project_image(paths: Paths, name: str, *, load: bool = True) -> str:
    """Have an image of this project built (and loaded); return the name by which the cluster knows it."""
    image = PROJECT_IMAGES[name]
    reference = build(
        paths,
        f"ppojob-{name}",
        dockerfile=REPOSITORY / image.dockerfile,
        context=REPOSITORY,
        target=image.target,
        build_args={image.base_argument: base(paths)},
        inputs_to_hash=sorted({file for pattern in image.inputs for file in REPOSITORY.glob(pattern)}),
        load=load,
    )
    return _load(paths, reference) if load else reference


def base(paths: Paths) -> str:
    """Have the base image, Debian bookworm with Python, in buildah; return its reference."""
    packages.require_linux_root()
    reference = f"localhost/ppojob-base:{base_image.key()}"
    if not _built(paths, reference):
        lacking = packages.missing_debian_packages()  # where kind is used, nothing has installed them yet
        if lacking:
            packages.install_debian_packages(lacking)
        progress = Progress(2)
        archive = base_image.root_file_system(paths, progress)
        with progress.step("base image"), tempfile.TemporaryDirectory(prefix="ppojob-base-") as folder:
            dockerfile = Path(folder, "Dockerfile")
            dockerfile.write_text(f'FROM scratch\nADD {archive.name} /\nCMD ["/bin/bash"]\n')
            buildah(paths, "build", "--file", dockerfile, "--tag", reference, archive.parent)
        _prune_buildah(paths, reference)
    return reference


def build(
    paths: Paths,
    name: str,
    *,
    dockerfile: Path,
    context: Path,
    target: str | None,
    build_args: Mapping[str, str],
    inputs_to_hash: Sequence[Path],
    load: bool = False,
) -> str:
    """Build an image unless one of the same inputs is there; return `localhost/<name>:<hash of the inputs>`.

    Where the caller is going to load it, one that the node already has need not be built again either.
    """
    if not dockerfile.exists():
        raise ClusterError(f"{dockerfile} is not there")
    reference = f"localhost/{name}:{_hash(dockerfile, context, target, build_args, inputs_to_hash)}"
    if _built(paths, reference) or (load and _loaded(paths, reference)):
        return reference
    with Progress(1).step(f"image {reference}: building"), _mounts() as mounts:
        arguments = [word for key, value in build_args.items() for word in ("--build-arg", f"{key}={value}")]
        chosen = ["--target", target] if target else []
        buildah(
            paths, "build", "--layers", "--isolation", "chroot", "--pull-never", *mounts, *arguments, *chosen,
            "--file", dockerfile, "--tag", reference, context, log=paths.cache / "log" / f"image-{name}.log",
        )  # fmt: skip
    _prune_buildah(paths, reference)
    return reference


def load(paths: Paths, reference: str) -> str:
    """Have an image that buildah has in the cluster, and return what it is called there; images of the same name that
    nothing uses any more go.

    containerd runs containers from unpacked snapshots and drops the layers' archives. So of an image that shares its
    lower layers with one that is there, only the others are written, sent and unpacked; in the layout that buildah
    writes into, hollow files make it skip the shared ones.
    """
    target = targets.choose(paths)
    if target is Target.EXISTING:
        return _push(paths, reference, registry.required())
    if _loaded(paths, reference):
        return reference
    with Progress(1).step(f"image {reference}: loading"):
        if target is Target.KIND:
            with _layout(paths, reference, ()) as layout, layout.archive() as archive:
                targets.kind_load(archive, paths.cache)
            return reference
        shared = _shared_layers(paths, reference)
        try:
            _send(paths, reference, shared)
        except CommandError:
            # A snapshot can be gone although an image names it; then everything is sent.
            if not shared:
                raise
            _send(paths, reference, ())
    _prune_containerd(paths, reference)
    return reference


_load = load


def _push(paths: Paths, reference: str, to: registry.Registry) -> str:
    """What is there already is not sent again."""
    name = to.name(reference)
    with Progress(1).step(f"image {name}: pushing"):
        verify = f"--tls-verify={'false' if to.plain else 'true'}"
        buildah(paths, "push", "--quiet", verify, reference, f"docker://{name}")
    return name


def buildah(paths: Paths, *arguments: str | Path, log: Path | None = None) -> str:
    """Run buildah on the store in our cache; with `log`, its output goes there and its end into the error."""
    store = ("--root", paths.cache / "buildah", "--runroot", "/run/ppojob-buildah", "--storage-driver", "overlay")
    if log is None:
        return run("buildah", *store, *arguments)
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [str(word) for word in ("buildah", *store, *arguments)]
    with log.open("wb") as output:
        code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False).returncode
    if code != 0:
        raise CommandError(f"buildah {arguments[0]} ended with {code}; the end of {log}:\n{tail(log, 25)}")
    return ""


def _hash(
    dockerfile: Path, context: Path, target: str | None, build_args: Mapping[str, str], inputs: Sequence[Path]
) -> str:
    """Twelve digits that change with the Dockerfile, the arguments, and names, contents or modes of the inputs."""
    digest = hashlib.sha256(repr((target, sorted(build_args.items()))).encode() + dockerfile.read_bytes())
    for file in sorted(inputs):
        if file.is_file() and "__pycache__" not in file.parts:
            executable = os.access(file, os.X_OK)
            digest.update(f"\0{file.relative_to(context)}\0{executable}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:12]


@contextlib.contextmanager
def _mounts() -> Iterator[list[str]]:
    """What RUN steps need of this machine to reach a package index, mounted so that it does not enter the image.

    A configuration file instead of build arguments: an index's address may hold a password, and arguments are recorded
    in the image's history.
    """
    bundle = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE") or ""
    settings = {name: os.environ[f"PIP_{name}"] for name in _PIP_SETTINGS if os.environ.get(f"PIP_{name}")}
    mounts = []
    if Path(bundle).is_file():
        mounts += ["--volume", f"{bundle}:{_CA_IN_IMAGE}:ro"]
        settings["CERT"] = _CA_IN_IMAGE
    lines = ["[global]", *(f"{name.lower().replace('_', '-')} = {value}" for name, value in settings.items())]
    with tempfile.NamedTemporaryFile("w", prefix="ppojob-pip-") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        yield [*mounts, "--volume", f"{file.name}:/etc/pip.conf:ro"]


@contextlib.contextmanager
def _layout(paths: Paths, reference: str, shared: Sequence[tuple[str, int]]) -> Iterator[oci.Layout]:
    """The image as an OCI layout, hollow where layers are `shared`."""
    with tempfile.TemporaryDirectory(dir=paths.cache, prefix=".image-") as folder:
        layout = oci.Layout(Path(folder))
        layout.pretend(shared)
        # buildah compresses what it writes into a layout; the fastest way costs less than writing twice the size.
        compression = ("--compression-format", "zstd", "--compression-level", "1")
        buildah(paths, "push", "--quiet", *compression, reference, f"oci:{folder}:image")
        layout.name(reference)
        yield layout


def _send(paths: Paths, reference: str, shared: Sequence[tuple[str, int]]) -> None:
    with _layout(paths, reference, shared) as layout, layout.archive(without=shared) as archive:
        containerd.import_archive(paths, archive)


def _shared_layers(paths: Paths, reference: str) -> Sequence[tuple[str, int]]:
    """The longest run of layers, from the bottom, that an image in containerd has too."""
    template = "{{range .OCIv1.RootFS.DiffIDs}}{{.}} {{end}}"
    wanted = buildah(paths, "inspect", "--type", "image", "--format", template, reference).split()
    best: Sequence[tuple[str, int]] = ()
    for other in containerd.images(paths):
        theirs = containerd.layers(paths, other)
        pairs = zip(wanted, theirs, strict=False)
        same = list(itertools.takewhile(lambda pair: pair[0] == pair[1][0], pairs))
        if len(same) > len(best):
            best = [layer for _, layer in same]
    return best


def _built(paths: Paths, reference: str) -> bool:
    return (paths.cache / "buildah").exists() and succeeds(
        "buildah", "--root", paths.cache / "buildah", "--runroot", "/run/ppojob-buildah",
        "--storage-driver", "overlay", "inspect", "--type", "image", "--format", "{{.FromImageID}}", reference,
    )  # fmt: skip


def _loaded(paths: Paths, reference: str) -> bool:
    """In the cluster's node, where that is our own or kind's."""
    match targets.choose(paths):
        case Target.NODE:
            return containerd.answers(paths) and reference in containerd.images(paths)
        case Target.KIND:
            return targets.kind_has(reference)
        case Target.EXISTING:
            return False


def _prune_buildah(paths: Paths, reference: str) -> None:
    """Drop older images of the same name; layers that the new one shares stay."""
    name = reference.rpartition(":")[0]
    listed = json.loads(buildah(paths, "images", "--json"))
    for old in (tag for image in listed for tag in image.get("names") or [] if tag.startswith(f"{name}:")):
        if old != reference:
            with contextlib.suppress(CommandError):
                buildah(paths, "rmi", old)


def _prune_containerd(paths: Paths, reference: str) -> None:
    """Drop older images of the same name that no container runs from."""
    name = reference.rpartition(":")[0]
    used = containerd.images_in_use(paths)
    older = [image for image in containerd.images(paths) if image.startswith(f"{name}:") and image != reference]
    containerd.remove_images(paths, [image for image in older if image not in used])
