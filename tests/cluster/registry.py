"""Images for a cluster that is not ours: through a registry that it reads and buildah may push to.

`PPOJOB_REGISTRY` is host[:port][/path]; with `http://` before it buildah speaks plain HTTP. Credentials are buildah's
(`buildah login`), those of the cluster's nodes are the cluster's business.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from .shell import ClusterError

VARIABLE = "PPOJOB_REGISTRY"
_PLAIN, _SECURE = "http://", "https://"
_PREFIX = re.compile(r"[a-zA-Z0-9.-]+(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")
_LOCAL = "localhost/"
"""How buildah names what it built."""


@dataclass(frozen=True, slots=True)
class Registry:
    """A place in a registry."""

    prefix: str
    plain: bool = False

    @classmethod
    def chosen(cls) -> Registry | None:
        """The one that the environment names; None where it names none."""
        given = os.environ.get(VARIABLE, "").strip()
        if not given:
            return None
        prefix = given.removeprefix(_PLAIN).removeprefix(_SECURE).rstrip("/")
        if not _PREFIX.fullmatch(prefix):
            raise ClusterError(
                f"{VARIABLE} is {given!r}; it must be host[:port][/path], http:// before it for plain HTTP"
            )
        return cls(prefix, plain=given.startswith(_PLAIN))

    def name(self, reference: str) -> str:
        """What an image of our buildah is called there."""
        return f"{self.prefix}/{reference.removeprefix(_LOCAL)}"


def required() -> Registry:
    """The chosen one, or what to do instead."""
    registry = Registry.chosen()
    if registry is None:
        raise ClusterError(
            "KUBECONFIG leads to a cluster that images cannot be loaded into. Set "
            f"{VARIABLE}=host[:port]/path to a registry that its nodes read and buildah may push to, or unset "
            "KUBECONFIG for a cluster on this machine. Nothing has been changed"
        )
    return registry
