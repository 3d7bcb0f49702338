"""A Lease as the election sees it, whatever keeps it."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """A Lease's content."""

    holder: str
    """Identity; empty when it was released."""
    duration_seconds: float
    acquired: str
    renewed: str
    transitions: int = 0
    version: str | None = None
    """Of the object as it was read; None where there is none yet."""


class LeaseStore(Protocol):
    """Where the Lease is kept. Methods raise `ClusterUnavailable`."""

    async def read(self) -> LeaseRecord | None: ...

    async def write(self, record: LeaseRecord) -> LeaseRecord:
        """Creates it (`version` None) or replaces exactly that version; raises `Conflict` where it is another."""
