"""Locks of the head pod: held by a process for its life, so that a driver is gone only when its lock is free."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ppojob_contract.protocol import LockState


def acquire(path: Path, wait_seconds: float, on_wait: Callable[[], None] = lambda: None) -> int | None:
    """Descriptor of the exclusively locked file, which the caller keeps open; None when it stayed locked too long.

    Polls, because the monitor's look (`state`) holds a lock for an instant too.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    deadline = time.monotonic() + wait_seconds
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        if time.monotonic() >= deadline:
            os.close(descriptor)
            return None
        on_wait()
        time.sleep(0.1)


@contextmanager
def held(path: Path, wait_seconds: float) -> Iterator[bool]:
    """Holds the lock for the block; yields False (and holds nothing) when another kept it too long."""
    descriptor = acquire(path, wait_seconds)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def state(path: Path) -> LockState:
    """Whether some process holds the lock now. No file: nobody ever did in this pod."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return LockState.FREE
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return LockState.HELD
    finally:
        os.close(descriptor)
    return LockState.FREE
