"""The operator's release as a user has it: packaged charts, Helm's commands, and who leads."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster import images
from tests.support.kube import CHART, RELEASE, SYSTEM, Kube, wait_for

ACCOUNT = f"system:serviceaccount:{SYSTEM}:{RELEASE}"
RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
CRD = "ppojobs.rlhf.dev"
EARLIER = "What the job does"
"""Description of the column Phase in the earlier chart's CRD."""
CRD_FILE = "rlhf.dev_ppojobs.yaml"


@dataclass(frozen=True, slots=True)
class Release:
    """One release of the chart under its usual name, in a namespace that takes restricted pods only."""

    kube: Kube

    @classmethod
    def none_yet(cls, kube: Kube) -> Release:
        """A cluster that never saw the operator: without release, CRD, and Lease. Nobody's PPOJobs are deleted."""
        release = cls(kube)
        release.uninstall()
        if kube.kubectl("get", "crd", CRD, "--ignore-not-found", "--output", "name"):
            # Namespaces of earlier tests may be on their way out.
            wait_for("no PPOJobs", lambda: not kube.kubectl.read(CRD, "-A")["items"], seconds=120)
            kube.kubectl("delete", "crd", CRD, "--wait", "--timeout=120s")
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM, "labels": RESTRICTED}}
        kube.kubectl.apply_objects([namespace])
        kube.kubectl("delete", "lease", RELEASE, "-n", SYSTEM, "--ignore-not-found")
        return release

    def package(self, folder: Path) -> Path:
        """This tree's chart, as it is published."""
        self.kube.helm("package", str(CHART), "--destination", str(folder))
        (packaged,) = folder.glob("*.tgz")
        return packaged

    def package_previous(self, packaged: Path, folder: Path) -> Path:
        """An earlier chart, whose CRD differs from today's in a description.

        With its own CRD it would need its own operator, which has no image here: today's writes what an older CRD may
        refuse.
        """
        with tarfile.open(packaged) as archive:
            archive.extractall(folder, filter="data")
        chart = folder / CHART.name
        generated = (CHART / "files" / CRD_FILE).read_text()
        (chart / "files" / CRD_FILE).write_text(generated.replace("What the job is doing", EARLIER))
        return chart

    def install(self, chart: Path, *settings: str) -> None:
        self._run("install", chart, settings)

    def upgrade(self, chart: Path, *settings: str) -> None:
        self._run("upgrade", chart, settings)

    def _run(self, what: str, chart: Path, settings: Sequence[str]) -> None:
        """The default images cannot be pulled here, so those are always named."""
        operator, trainer = (images.project_image(self.kube.paths, name) for name in ("operator", "trainer-cpu"))
        repository, tag = operator.rsplit(":", 1)
        named = {"image.repository": repository, "image.tag": tag, "trainer.images.cpu": trainer}
        flags = [part for key, value in named.items() for part in ("--set-string", f"{key}={value}")]
        flags += [part for setting in settings for part in ("--set", setting)]
        self.kube.helm(what, RELEASE, str(chart), "--namespace", SYSTEM, "--wait", "--timeout", "120s", *flags)

    def uninstall(self) -> None:
        self.kube.helm("uninstall", RELEASE, "--namespace", SYSTEM, "--ignore-not-found", "--wait")

    def test(self) -> str:
        """`helm test`, with what its pod said."""
        return self.kube.helm("test", RELEASE, "--namespace", SYSTEM, "--logs", "--timeout", "60s")

    def pods(self) -> list[dict[str, Any]]:
        selector = "app.kubernetes.io/name=ppojob-operator,app.kubernetes.io/component=operator"
        return self.kube.items("pods", SYSTEM, selector)

    def logs(self, *arguments: str) -> str:
        """Of all the operator's pods."""
        selector = f"app.kubernetes.io/instance={RELEASE},app.kubernetes.io/component=operator"
        return self.kube.kubectl("logs", "-n", SYSTEM, "-l", selector, "--tail=-1", *arguments)

    def leader(self) -> str:
        """Name of the pod that holds the Lease; empty where it is free."""
        lease = self.kube.get("lease", RELEASE, SYSTEM) or {"spec": {}}
        return str(lease["spec"].get("holderIdentity") or "")

    def rights(self, namespace: str, account: str = ACCOUNT) -> dict[tuple[str, str], set[str]]:
        """What `kubectl auth can-i --list` says of a service account: (group, resource) to verbs."""
        table = self.kube.kubectl("auth", "can-i", "--list", "--no-headers", "-n", namespace, f"--as={account}")
        found: dict[tuple[str, str], set[str]] = {}
        for line in table.splitlines():
            row = re.fullmatch(r"(\S+)\s+\[.*?\]\s+\[.*?\]\s+\[(.*?)\]\s*", line)
            if row and not row[1].startswith("["):
                name, _, group = row[1].partition(".")
                base, _, rest = name.partition("/")
                # A subresource stands behind the group: ppojobs.rlhf.dev/status.
                group, _, subresource = group.partition("/")
                key = (group, f"{base}/{subresource or rest}" if subresource or rest else base)
                found.setdefault(key, set()).update(row[2].split())
        return found

    def own_rights(self, namespace: str) -> dict[tuple[str, str], set[str]]:
        """The operator's, without what any account may do."""
        anybody = self.rights(namespace, f"system:serviceaccount:{SYSTEM}:nobody")
        mine = self.rights(namespace)
        assert anybody.items() <= mine.items(), "what anybody may do, the operator may do"
        return {key: verbs for key, verbs in mine.items() if key not in anybody}


def json_lines(text: str) -> list[dict[str, Any]]:
    """Every line must be JSON."""
    return [json.loads(line) for line in text.splitlines()]
