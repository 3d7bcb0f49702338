"""`leases.LeaseStore` on a Lease of the API server."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from ppojob_operator.adapters.kubernetes.api import Api
from ppojob_operator.adapters.kubernetes.kinds import LEASE
from ppojob_operator.errors import Conflict
from ppojob_operator.ports import LeaseRecord

_REFUSED: Final = frozenset({HTTPStatus.CONFLICT.value, HTTPStatus.NOT_FOUND.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesLease:
    """One Lease by its name."""

    api: Api
    namespace: str
    name: str

    async def read(self) -> LeaseRecord | None:
        answer = await self.api.get(LEASE.path(self.namespace, self.name))
        return _record(answer.body) if answer.found else None

    async def write(self, record: LeaseRecord) -> LeaseRecord:
        new = record.version is None
        path = LEASE.path(self.namespace, None if new else self.name)
        body = self._body(record)
        answer = await self.api.change("POST" if new else "PUT", path, body, accept=_REFUSED, needs_lead=False)
        if answer.status in _REFUSED:
            raise Conflict(f"Lease {self.namespace}/{self.name} was changed by another")
        return _record(answer.body)

    def _body(self, record: LeaseRecord) -> dict[str, Any]:
        version = {} if record.version is None else {"resourceVersion": record.version}
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.name,
            "metadata": {"name": self.name, "namespace": self.namespace, **version},
            "spec": {
                "holderIdentity": record.holder,
                "leaseDurationSeconds": max(1, round(record.duration_seconds)),
                "acquireTime": record.acquired or None,
                "renewTime": record.renewed or None,
                "leaseTransitions": record.transitions,
            },
        }


def _record(body: dict[str, Any]) -> LeaseRecord:
    spec = body.get("spec", {})
    return LeaseRecord(
        holder=spec.get("holderIdentity") or "",
        duration_seconds=float(spec.get("leaseDurationSeconds") or 0),
        acquired=spec.get("acquireTime") or "",
        renewed=spec.get("renewTime") or "",
        transitions=int(spec.get("leaseTransitions") or 0),
        version=body["metadata"]["resourceVersion"],
    )
