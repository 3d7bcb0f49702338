"""OCI image layouts: a folder of blobs named by their digest, and an index that names the images.

Two uses: images of one static program are written here without any builder, and images that buildah wrote as a layout
are handed on to containerd without the layers that it has.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from .shell import ClusterError

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
# The annotation from which containerd takes an image's full name.
_NAME = "io.containerd.image.name"


class Layout:
    """A layout folder that is being written or read."""

    def __init__(self, folder: Path) -> None:
        """Use `folder`, which exists."""
        self.folder = folder
        self._blobs.mkdir(parents=True, exist_ok=True)
        (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')

    def blob(self, digest: str) -> Path:
        """Where the content with this digest belongs."""
        return self._blobs / digest.removeprefix("sha256:")

    def add(self, media_type: str, content: bytes) -> dict[str, object]:
        """Store content and return the descriptor that refers to it."""
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self.blob(digest).write_bytes(content)
        return {"mediaType": media_type, "digest": digest, "size": len(content)}

    def pretend(self, layers: Sequence[tuple[str, int]]) -> None:
        """Put hollow files in the place of layers that need not be written: same name and size, no content."""
        for digest, size in layers:
            with self.blob(digest).open("wb") as file:
                file.truncate(size)

    def name(self, reference: str, manifest: dict[str, object] | None = None) -> None:
        """Make the index say `reference` for the manifest given, or for the one that it lists."""
        file = self.folder / "index.json"
        entry = manifest or json.loads(file.read_text())["manifests"][0]
        entry = {**entry, "annotations": {_NAME: reference}}
        file.write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))

    @contextlib.contextmanager
    def archive(self, without: Sequence[tuple[str, int]] = ()) -> Iterator[IO[bytes]]:
        """The layout as a tar stream, `without` some layers."""
        left_out = {self.blob(digest).name for digest, _ in without}
        blobs = [f"blobs/sha256/{file.name}" for file in self._blobs.iterdir() if file.name not in left_out]
        command = ["tar", "--create", f"--directory={self.folder}", "oci-layout", "index.json", *sorted(blobs)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            yield process.stdout
            process.stdout.close()
        if process.returncode != 0:
            raise ClusterError(f"writing the image archive ended with {process.returncode}")

    @property
    def _blobs(self) -> Path:
        return self.folder / "blobs" / "sha256"


@contextlib.contextmanager
def program_image(
    reference: str, files: dict[str, Path], entrypoint: list[str], user: str, scratch: Path
) -> Iterator[IO[bytes]]:
    """An image archive with nothing but the given static programs (path in the image -> file here)."""
    with tempfile.TemporaryDirectory(dir=scratch, prefix=".image-") as folder:
        layout = Layout(Path(folder))
        layer = _layer(layout, files)
        config = {
            "architecture": _architecture(),
            "os": "linux",
            "config": {"Entrypoint": entrypoint, "User": user, "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": layout.add(_CONFIG, json.dumps(config).encode()),
            "layers": [layer],
        }
        layout.name(reference, layout.add(_MANIFEST, json.dumps(manifest).encode()))
        with layout.archive() as stream:
            yield stream


def _layer(layout: Layout, files: dict[str, Path]) -> dict[str, object]:
    """One uncompressed layer; the same files always give the same digest."""
    with tempfile.TemporaryFile(dir=layout.folder) as buffer:
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for path, source in sorted(files.items()):
                member = tarfile.TarInfo(path.lstrip("/"))
                member.size, member.mode = source.stat().st_size, 0o755
                with source.open("rb") as content:
                    archive.addfile(member, content)
            # Programs expect somewhere to write temporary files.
            folder = tarfile.TarInfo("tmp")
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
            archive.addfile(folder)
        buffer.seek(0)
        return layout.add(_LAYER, buffer.read())


def _architecture() -> str:
    """This machine's architecture by Go's name for it."""
    machine = subprocess.run(["uname", "-m"], capture_output=True, text=True, check=True).stdout.strip()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
