"""The root file system of the base image: Debian bookworm with Python 3.11, made by debootstrap.

It stands in for the python:3.11-slim of a registry: `python` and `pip` work without a virtual environment.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from . import packages
from .progress import Progress
from .settings import Paths
from .shell import CommandError, run

_SUITE = "bookworm"
_PACKAGES = ("ca-certificates", "python3", "python3-pip", "python3-venv", "tini", "wget")
_DEFAULT_MIRROR = "http://deb.debian.org/debian"
# Debian refuses pip outside of virtual environments; in an image there is nothing to protect.
_REMOVED = ("usr/lib/python3.11/EXTERNALLY-MANAGED",)
# Kept small: lists and archives of packages, documentation, translations.
_EMPTIED = ("var/cache/apt", "var/lib/apt/lists", "var/log", "usr/share/doc", "usr/share/man", "usr/share/locale")
_RECIPE = 1


def key() -> str:
    """Changes with what goes in; Debian's own updates do not change it (delete the cache for those)."""
    return hashlib.sha256(repr((_SUITE, _PACKAGES, _REMOVED, _EMPTIED, _RECIPE)).encode()).hexdigest()[:12]


def root_file_system(paths: Paths, progress: Progress) -> Path:
    """The tar file, from the cache or made now."""
    target = paths.cache / "base" / f"rootfs-{key()}.tar"
    with progress.step("base root file system: Debian bookworm, Python 3.11", "about 1 min; nothing where cached"):
        if target.exists():
            return target
        missing = packages.missing_debian_packages()
        if missing:
            packages.install_debian_packages(missing)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".rootfs-") as scratch:
            root, archive = Path(scratch, "root"), Path(scratch, "rootfs.tar")
            include = f"--include={','.join(_PACKAGES)}"
            run("debootstrap", "--variant=minbase", include, _SUITE, root, _mirror(), timeout=1200)
            _trim(root)
            run("tar", "--create", "--numeric-owner", "--file", archive, "--directory", root, ".")
            archive.rename(target)
    return target


def _trim(root: Path) -> None:
    for name in _REMOVED:
        (root / name).unlink()
    for name in _EMPTIED:
        run("find", root / name, "-mindepth", "1", "-not", "-type", "d", "-delete")
    (root / "usr/bin/python").symlink_to("python3")
    # Mount points for what a build needs of its machine.
    (root / "etc/pip.conf").touch()


def _mirror() -> str:
    """The mirror that this machine's apt is set up with, else Debian's."""
    try:
        listed = run("apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)")
    except CommandError:
        return _DEFAULT_MIRROR
    for line in listed.splitlines():
        words = line.split()
        if words[1:] == [_SUITE, "main"]:
            return words[0].rstrip("/")
    return _DEFAULT_MIRROR
