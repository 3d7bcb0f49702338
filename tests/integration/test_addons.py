"""What `make cluster-up` would install, here and into other clusters, is accepted by a real API server."""

from pathlib import Path

import pytest
from tests.cluster import addons
from tests.cluster.kubectl import Kubectl
from tests.support.kube import Kube


class DryRun(Kubectl):
    """Lets the server check what is applied, and keep nothing of it."""

    def apply(self, *arguments: str | Path, stdin: str | None = None) -> None:
        super().apply("--dry-run=server", *arguments, stdin=stdin)


@pytest.mark.parametrize("own_images", [True, False], ids=["own-node", "elsewhere"])
def test_addons_are_accepted(own_images: bool, tmp_path: Path) -> None:
    kube = Kube.connect()
    client = DryRun(kube.paths, kube.kubectl.kubeconfig)
    wanted = [addon for addon in addons.ADDONS if own_images or addon.namespace != "kube-system"]
    addons.Installer(client, tmp_path / "addons", own_images=own_images).install(wanted)
