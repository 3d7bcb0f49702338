"""Whether the watches still bring news: what a full list shows, they have to show too, soon.

A watch can be open, or be opened again and again, and bring nothing: a proxy on the way, a queue that is stuck. Nothing
else would notice, since the lease is renewed and lists correct the store every few minutes. Deletions do not count: a
watch that had to start anew does not tell them.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

LATE_SECONDS: Final = 90.0
"""A watch that was cut is back in seconds; at the start, thousands of objects take their time."""


@dataclass(slots=True)
class _Watch:
    """One kind's objects by UID: the newest version that the watch told, and newer ones that a list showed."""

    told: dict[str, int] = field(default_factory=dict)
    awaited: dict[str, tuple[int, float]] = field(default_factory=dict)


class Watches:
    """Compares watches with lists. Kinds are named by their plurals."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._kinds: dict[str, _Watch] = {}

    def told(self, kind: str, uid: str, version: int) -> None:
        """The watch told of an object, its end included."""
        watch = self._kinds.setdefault(kind, _Watch())
        watch.told[uid] = max(version, watch.told.get(uid, 0))
        awaited = watch.awaited.get(uid)
        if awaited is not None and awaited[0] <= version:
            del watch.awaited[uid]

    def listed(self, kind: str, versions: Mapping[str, int], at: int) -> None:
        """A full list, from the API server's state of version `at` or later, shows these versions by UID."""
        watch, now = self._kinds.setdefault(kind, _Watch()), self._monotonic()
        late = {uid: version for uid, version in versions.items() if version > watch.told.get(uid, 0)}
        watch.awaited = {uid: watch.awaited.get(uid, (version, now)) for uid, version in late.items()}
        watch.told = {uid: told for uid, told in watch.told.items() if uid in versions or told > at}

    def problems(self) -> Iterator[str]:
        """One line for each watch that is late."""
        for kind, watch in self._kinds.items():
            waited = self._monotonic() - min((since for _, since in watch.awaited.values()), default=self._monotonic())
            if waited > LATE_SECONDS:
                yield f"watch of {kind}: has not told for {waited:.0f} s what a list showed"
