"""The Kubernetes API server: the only place that imports its client library."""

from ppojob_operator.adapters.kubernetes.api import Api, Credentials, load_configuration
from ppojob_operator.adapters.kubernetes.cluster import KubernetesCluster, watched
from ppojob_operator.adapters.kubernetes.lease import KubernetesLease
from ppojob_operator.adapters.kubernetes.store import Change, Store

__all__ = [
    "Api",
    "Change",
    "Credentials",
    "KubernetesCluster",
    "KubernetesLease",
    "Store",
    "load_configuration",
    "watched",
]
