"""Names, addresses and folders of the development cluster. Nothing here touches the machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
REPOSITORY = PACKAGE.parent.parent

# One node per machine: its names and addresses are fixed, so that what a crashed run left behind is found again.
NODE_NAME = "ppojob-dev"
NETNS = "ppojob"
HOST_LINK = "ppojob0"
CGROUP = "ppojob-cluster"
CNI_NETWORK = "ppojob-pod"

HOST_IP = "10.231.0.1"
NODE_IP = "10.231.0.2"
LINK_SUBNET = "10.231.0.0/30"
POD_SUBNET = "10.244.0.0/24"
SERVICE_SUBNET = "10.96.0.0/16"
API_SERVICE_IP = "10.96.0.1"
DNS_SERVICE_IP = "10.96.0.10"
API_URL = f"https://{NODE_IP}:6443"

LOCK_FILE = Path("/run/ppojob-cluster.lock")


@dataclass(frozen=True, slots=True)
class Paths:
    """Where things live: `cache` is kept for ever and may be deleted at any time, `cluster` is the running node's."""

    cache: Path
    cluster: Path

    @property
    def bin(self) -> Path:
        """Links to all built programs; what `env` puts on PATH."""
        return self.cluster / "bin"

    @property
    def cni_bin(self) -> Path:
        """Links to the CNI plugins only: containerd runs what it finds here."""
        return self.cluster / "cni" / "bin"

    @property
    def pki(self) -> Path:
        """Keys and certificates, made anew by every start."""
        return self.cluster / "pki"

    @property
    def admin_kubeconfig(self) -> Path:
        """Full rights on the node's API."""
        return self.kubeconfig("admin")

    def kubeconfig(self, user: str) -> Path:
        """The kubeconfig of one component or of the administrator."""
        return self.cluster / "kubeconfig" / f"{user}.conf"

    @property
    def logs(self) -> Path:
        """One file per daemon, `pods/` for the containers'."""
        return self.cluster / "log"

    @property
    def containerd_socket(self) -> Path:
        """In the state folder, which is emptied at every stop."""
        return self.cluster / "run" / "containerd.sock"

    @property
    def containerd_root(self) -> Path:
        """Images and snapshots: the one part of the node that survives `down`."""
        return self.cluster / "containerd" / "root"

    @property
    def volumes(self) -> Path:
        """The folders behind the hostPath PersistentVolumes."""
        return self.cluster / "volumes"


def paths() -> Paths:
    """Read the two folders from the environment, or take the defaults."""
    cache = os.environ.get("PPOJOB_CACHE") or str(Path.home() / ".cache" / "ppojob")
    cluster = os.environ.get("PPOJOB_CLUSTER_DIR") or "/var/lib/ppojob-cluster"
    return Paths(cache=Path(cache).absolute(), cluster=Path(cluster).absolute())
