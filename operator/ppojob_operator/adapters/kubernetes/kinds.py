"""The kinds of objects that the operator touches, and with which verbs: the chart's RBAC is tested against this."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Where a namespaced kind lives in the API."""

    name: str
    group: str
    """Empty for the core group."""
    version: str
    plural: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """URL path of one object, or of a collection (of all namespaces where `namespace` is None)."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [root]
        if namespace is not None:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part is not None]
        return "/".join(parts)


PPO_JOB: Final = Kind(name="PPOJob", group="rlhf.dev", version="v1alpha1", plural="ppojobs")
RAY_CLUSTER: Final = Kind(name="RayCluster", group="ray.io", version="v1", plural="rayclusters")
RAY_JOB: Final = Kind(name="RayJob", group="ray.io", version="v1", plural="rayjobs")
POD: Final = Kind(name="Pod", group="", version="v1", plural="pods")
SECRET: Final = Kind(name="Secret", group="", version="v1", plural="secrets")
CLAIM: Final = Kind(name="PersistentVolumeClaim", group="", version="v1", plural="persistentvolumeclaims")
EVENT: Final = Kind(name="Event", group="", version="v1", plural="events")
REVISION: Final = Kind(name="ControllerRevision", group="apps", version="v1", plural="controllerrevisions")
LEASE: Final = Kind(name="Lease", group="coordination.k8s.io", version="v1", plural="leases")

WATCHED: Final = (PPO_JOB, RAY_CLUSTER, RAY_JOB, POD)
"""Kept in memory, see `store`."""

CREATABLE: Final = {kind.name: kind for kind in (PPO_JOB, RAY_CLUSTER, RAY_JOB, SECRET, REVISION)}
DELETABLE: Final = {kind.name: kind for kind in (RAY_CLUSTER, RAY_JOB)}

USES: Final[dict[tuple[str, str], dict[str, str]]] = {
    (PPO_JOB.group, PPO_JOB.plural): {
        "get": "adapters.kubernetes.cluster.KubernetesCluster.get_job",
        "list": "adapters.kubernetes.cluster.KubernetesCluster.sync",
        "watch": "controller.handlers.registry",
        "create": "adapters.kubernetes.cluster.KubernetesCluster.create",
        "delete": "adapters.kubernetes.cluster.KubernetesCluster.delete_job",
    },
    (PPO_JOB.group, f"{PPO_JOB.plural}/status"): {
        "update": "adapters.kubernetes.cluster.KubernetesCluster.write_status",
    },
    **{
        (kind.group, kind.plural): {
            "get": "adapters.kubernetes.cluster.KubernetesCluster.create",
            "list": "adapters.kubernetes.cluster.KubernetesCluster.sync",
            "watch": "controller.handlers.registry",
            "create": "adapters.kubernetes.cluster.KubernetesCluster.create",
            "delete": "adapters.kubernetes.cluster.KubernetesCluster.delete",
        }
        for kind in (RAY_CLUSTER, RAY_JOB)
    },
    (POD.group, POD.plural): {
        "list": "adapters.kubernetes.cluster.KubernetesCluster.sync",
        "watch": "controller.handlers.registry",
    },
    (SECRET.group, SECRET.plural): {
        "get": "adapters.kubernetes.cluster.KubernetesCluster.read_token",
        "create": "adapters.kubernetes.cluster.KubernetesCluster.create",
    },
    (CLAIM.group, CLAIM.plural): {"get": "adapters.kubernetes.cluster.KubernetesCluster.claim_exists"},
    (EVENT.group, EVENT.plural): {
        "create": "adapters.kubernetes.events.EventRecorder.emit",
        "patch": "adapters.kubernetes.events.EventRecorder.emit",
    },
    (REVISION.group, REVISION.plural): {
        "get": "adapters.kubernetes.cluster.KubernetesCluster.load_revision",
        "list": "adapters.kubernetes.cluster.KubernetesCluster.save_revision",
        "create": "adapters.kubernetes.cluster.KubernetesCluster.save_revision",
        "delete": "adapters.kubernetes.cluster.KubernetesCluster.save_revision",
    },
}
"""(group, resource) to verbs, in the namespaces of the jobs, each with the code that uses it: `docs/permissions.md`."""

LEASE_USES: Final = {
    "get": "adapters.kubernetes.lease.KubernetesLease.read",
    "create": "adapters.kubernetes.lease.KubernetesLease.write",
    "update": "adapters.kubernetes.lease.KubernetesLease.write",
}
"""The same on Leases, in the operator's own namespace."""

VERBS: Final = {resource: frozenset(uses) for resource, uses in USES.items()}
LEASE_VERBS: Final = frozenset(LEASE_USES)
