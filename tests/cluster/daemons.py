"""The node's daemons: their command lines and configuration files, nothing that runs them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from . import settings
from .settings import Paths
from .tools import CONTAINERD, ETCD, KUBERNETES, ToolGroup

# The pod sandbox's image: imported before the kubelet starts and never collected.
PAUSE_REFERENCE = "localhost/pause:pinned"

_CONTAINERD_CONFIG = """\
version = 3
root = "{root}"
state = "{cluster}/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]
[grpc]
  address = "{socket}"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  discard_unpacked_layers = true
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "{pause}"
[plugins.'io.containerd.cri.v1.runtime']
  # Without CAP_SYS_RESOURCE runc cannot lower a container's OOM score and dies with "can't get final child's PID".
  restrict_oom_score_adj = true
  # Pods' network namespaces below our folder instead of in /run/netns, where others have theirs.
  netns_mounts_under_state_dir = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["{cluster}/cni/bin"]
    conf_dir = "{cluster}/cni/conf"
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        SystemdCgroup = false
        Root = "{cluster}/run/runc"
"""


@dataclass(frozen=True, slots=True)
class Daemon:
    """A program of a tool group with its arguments; `program` is also how its process is recognised."""

    program: str
    group: ToolGroup
    arguments: tuple[str, ...]

    def command(self, paths: Paths) -> list[str]:
        """The absolute command line."""
        return [str(self.group.program(paths, self.program)), *self.arguments]


def store_and_runtime(paths: Paths) -> list[Daemon]:
    """What needs nothing else to be up."""
    return [_etcd(paths), Daemon("containerd", CONTAINERD, ("--config", f"{paths.cluster}/containerd.toml"))]


def control_plane_and_node(paths: Paths) -> list[Daemon]:
    """What talks to the API server and is started once that answers."""
    return [_controller_manager(paths), _scheduler(paths), _kubelet(paths), _proxy(paths)]


def api_server(paths: Paths) -> Daemon:
    """The API; authentication by our certificates, authorization by RBAC as on a real cluster."""
    pki = paths.pki
    flags = {
        "etcd-servers": "http://127.0.0.1:2379",
        "bind-address": settings.NODE_IP,
        "secure-port": "6443",
        "advertise-address": settings.NODE_IP,
        "service-cluster-ip-range": settings.SERVICE_SUBNET,
        "client-ca-file": f"{pki}/ca.crt",
        "tls-cert-file": f"{pki}/apiserver.crt",
        "tls-private-key-file": f"{pki}/apiserver.key",
        "service-account-key-file": f"{pki}/tokens.pub",
        "service-account-signing-key-file": f"{pki}/tokens.key",
        "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "allow-privileged": "true",
        "kubelet-client-certificate": f"{pki}/apiserver-kubelet.crt",
        "kubelet-client-key": f"{pki}/apiserver-kubelet.key",
        "kubelet-preferred-address-types": "InternalIP",
    }
    return Daemon("kube-apiserver", KUBERNETES, _flags(flags))


def all_programs(paths: Paths) -> set[str]:
    """What has to be running on a healthy node."""
    daemons = [*store_and_runtime(paths), api_server(paths), *control_plane_and_node(paths)]
    return {daemon.program for daemon in daemons}


def write_configuration(paths: Paths) -> None:
    """The files that the command lines name."""
    cluster = paths.cluster
    containerd = _CONTAINERD_CONFIG.format(
        root=paths.containerd_root, cluster=cluster, socket=paths.containerd_socket, pause=PAUSE_REFERENCE
    )
    files = {
        "containerd.toml": containerd,
        "cni/conf/10-pod.conflist": json.dumps(_pod_network(cluster), indent=1),
        "kubelet.json": json.dumps(_kubelet_configuration(paths), indent=1),
        # Pods that take the node's DNS get an address that answers at once: nothing, in a cluster without internet.
        "resolv.conf": "nameserver 127.0.0.1\n",
    }
    for name, content in files.items():
        (cluster / name).parent.mkdir(parents=True, exist_ok=True)
        (cluster / name).write_text(content)


def _etcd(paths: Paths) -> Daemon:
    """Without fsync: this store is thrown away at the next start."""
    flags = {
        "data-dir": f"{paths.cluster}/etcd",
        "listen-client-urls": "http://127.0.0.1:2379",
        "advertise-client-urls": "http://127.0.0.1:2379",
        "listen-peer-urls": "http://127.0.0.1:2380",
        "unsafe-no-fsync": "true",
    }
    return Daemon("etcd", ETCD, _flags(flags))


def _controller_manager(paths: Paths) -> Daemon:
    flags = {
        "kubeconfig": str(paths.kubeconfig("controller-manager")),
        "service-account-private-key-file": f"{paths.pki}/tokens.key",
        "root-ca-file": f"{paths.pki}/ca.crt",
        "cluster-signing-cert-file": f"{paths.pki}/ca.crt",
        "cluster-signing-key-file": f"{paths.pki}/ca.key",
        "use-service-account-credentials": "true",
        "flex-volume-plugin-dir": f"{paths.cluster}/kubelet/volume-plugins",
        "leader-elect": "false",
        "bind-address": "127.0.0.1",
    }
    return Daemon("kube-controller-manager", KUBERNETES, _flags(flags))


def _scheduler(paths: Paths) -> Daemon:
    flags = {"kubeconfig": str(paths.kubeconfig("scheduler")), "leader-elect": "false", "bind-address": "127.0.0.1"}
    return Daemon("kube-scheduler", KUBERNETES, _flags(flags))


def _kubelet(paths: Paths) -> Daemon:
    flags = {
        "config": f"{paths.cluster}/kubelet.json",
        "kubeconfig": str(paths.kubeconfig("kubelet")),
        "hostname-override": settings.NODE_NAME,
        "node-ip": settings.NODE_IP,
        "root-dir": f"{paths.cluster}/kubelet",
    }
    return Daemon("kubelet", KUBERNETES, _flags(flags))


def _proxy(paths: Paths) -> Daemon:
    flags = {
        "kubeconfig": str(paths.kubeconfig("proxy")),
        "hostname-override": settings.NODE_NAME,
        "cluster-cidr": settings.POD_SUBNET,
        "proxy-mode": "iptables",
        # The host's limit stays as it is: the setting belongs to the whole machine.
        "conntrack-max-per-core": "0",
        "bind-address": settings.NODE_IP,
    }
    return Daemon("kube-proxy", KUBERNETES, _flags(flags))


def _kubelet_configuration(paths: Paths) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{settings.CGROUP}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [settings.DNS_SERVICE_IP],
        "clusterDomain": "cluster.local",
        "resolvConf": f"{paths.cluster}/resolv.conf",
        "containerRuntimeEndpoint": f"unix://{paths.containerd_socket}",
        "podLogsDir": f"{paths.logs}/pods",
        "volumePluginDir": f"{paths.cluster}/kubelet/volume-plugins",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{paths.pki}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{paths.pki}/kubelet-serving.crt",
        "tlsPrivateKeyFile": f"{paths.pki}/kubelet-serving.key",
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1Gi", "imagefs.available": "1Gi"},
        # Images come from here and from no registry: never collect them.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "maxPods": 250,
    }


def _pod_network(cluster: Path) -> dict[str, object]:
    """Pods on one bridge; no masquerading, so that host and pods see each other's own addresses."""
    addresses = {
        "type": "host-local",
        "dataDir": f"{cluster}/cni/addresses",
        "ranges": [[{"subnet": settings.POD_SUBNET}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": False, "hairpinMode": True}
    return {
        "cniVersion": "1.0.0",
        "name": settings.CNI_NETWORK,
        "plugins": [{**bridge, "ipam": addresses}, {"type": "portmap", "capabilities": {"portMappings": True}}],
    }


def _flags(values: dict[str, str]) -> tuple[str, ...]:
    return tuple(f"--{name}={value}" for name, value in values.items())
