"""A job whose spec was accepted: what rendering and deciding work on."""

from dataclasses import dataclass
from functools import cached_property

from ppojob_contract.layout import job_folder
from ppojob_contract.names import STORAGE_MOUNT
from ppojob_operator.api.v1alpha1.spec import PPOJobSpec
from ppojob_operator.domain import hashes


@dataclass(frozen=True, kw_only=True)
class AcceptedJob:
    """Identity and the spec that governs (the last accepted one, which an invalid edit does not replace)."""

    namespace: str
    name: str
    uid: str
    generation: int
    spec: PPOJobSpec

    @cached_property
    def root(self) -> str:
        """Absolute path of the job's folder in the trainer's pods."""
        parts = [STORAGE_MOUNT, self.spec.storage.path, job_folder(self.namespace, self.name, self.uid)]
        return "/".join(filter(None, parts))

    @cached_property
    def training_hash(self) -> str:
        """Differs when an edit needs another attempt."""
        return hashes.training_hash(self.spec)

    @cached_property
    def cluster_hash(self) -> str:
        """Differs when an edit needs another RayCluster."""
        return hashes.cluster_hash(self.spec)

    @cached_property
    def data_hash(self) -> str:
        """Differs when an edit makes the order of the data another one."""
        return hashes.data_hash(self.spec)

    @cached_property
    def spec_hash(self) -> str:
        """Names the spec as a whole."""
        return hashes.spec_hash(self.spec)
