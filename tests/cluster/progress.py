"""One line when a step begins, one when it ends, a sign of life every 30 seconds. All on standard error."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

HEARTBEAT_SECONDS = 30.0


def say(message: str) -> None:
    """Print a line at once; standard output is kept for what other programs read."""
    print(message, file=sys.stderr, flush=True)


class Progress:
    """Numbers the steps of one command."""

    def __init__(self, total: int) -> None:
        """Announce `total` steps."""
        self._total = total
        self._current = 0

    @contextlib.contextmanager
    def step(self, title: str, expectation: str = "") -> Iterator[None]:
        """Report the begin, the life and the end of one step, or that it failed."""
        self._current += 1
        name = f"[{self._current}/{self._total}] {title}"
        say(f"{name}{f' ({expectation})' if expectation else ''} ...")
        began = time.monotonic()
        finished = threading.Event()

        def beat() -> None:
            while not finished.wait(HEARTBEAT_SECONDS):
                say(f"{name}: still going after {time.monotonic() - began:.0f} s")

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        outcome = "failed after"
        try:
            yield
            outcome = "done in"
        finally:
            finished.set()
            thread.join()
            say(f"{name}: {outcome} {time.monotonic() - began:.1f} s")
