"""kubectl, pointed at one cluster."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .settings import Paths
from .shell import run
from .tools import KUBERNETES


def find(paths: Paths) -> Path:
    """The built kubectl, else the machine's; where there is neither, the one that is yet to be built."""
    built = KUBERNETES.program(paths, "kubectl")
    installed = shutil.which("kubectl")
    return Path(installed) if installed and not built.exists() else built


@dataclass(frozen=True, slots=True)
class Kubectl:
    """Runs kubectl with one kubeconfig, whatever the environment says."""

    paths: Paths
    kubeconfig: Path

    def __call__(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """Run and return standard output; raise `CommandError` on failure."""
        environment = {"KUBECONFIG": str(self.kubeconfig)}
        return run(find(self.paths), *arguments, stdin=stdin, environment=environment, timeout=180)

    def read(self, *arguments: str) -> Any:
        """The parsed answer of `kubectl get ... -o json`."""
        return json.loads(self("get", *arguments, "-o", "json"))

    def apply(self, *arguments: str | Path, stdin: str | None = None) -> None:
        """Server-side: large definitions do not fit the annotation that a client-side apply writes."""
        self("apply", "--server-side", "--force-conflicts", *arguments, stdin=stdin)

    def apply_objects(self, objects: list[dict[str, Any]]) -> None:
        """Apply objects made here."""
        self.apply("-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
