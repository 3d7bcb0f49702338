# mypy: disable-error-code="import, misc, no-untyped-call, untyped-decorator, attr-defined, union-attr, arg-type"
"""A step's generation under way: looked at while verl waits for it, and ended before its time."""

import time
from collections.abc import Callable
from typing import Any

import transfer_queue as tq

REPLAY_POLL_SECONDS = 0.05
"""verl looks for finished samples every 2 s, with no key to change it: more than many a whole step."""

LEAVE_SECONDS = 600.0
"""For requests that have been aborted to come back; a tool of a long conversation may take its time."""


def watched(buffer: Any, *, on_progress: Callable[[], None], on_wait: Callable[[], None]) -> Any:
    """The replay buffer with `on_wait` called at each look during training, `on_progress` when one more is done."""
    buffer.poll_interval = REPLAY_POLL_SECONDS
    wait, done = buffer._wait_for_next_poll, -1  # noqa: SLF001

    def wait_or_leave(partition_id: str, last_debug_time: float) -> float:
        nonlocal done
        now_done = len(buffer.finished_keys[partition_id]) + len(buffer.failure_keys[partition_id])
        if now_done != done:
            done = now_done
            on_progress()
        if partition_id == "train":
            on_wait()
        return float(wait(partition_id, last_debug_time))

    buffer._wait_for_next_poll = wait_or_leave  # noqa: SLF001
    return buffer


def end(replicas: Any, on_wait: Callable[[], None], seconds: float = LEAVE_SECONDS) -> int:
    """Cuts short what is generated, waits until nothing comes any more, and empties the queue.

    `replicas` is verl's CheckpointEngineManager; afterwards they sleep. Returns how many entries were dropped. Raises
    TimeoutError.
    """
    replicas.abort_replicas(reject_request=True)  # also the next turn of a conversation
    deadline = time.monotonic() + seconds
    while running := _running(entries := tq.kv_list() or {}):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{running} prompts are still being answered {seconds:.0f} s after they were aborted")
        on_wait()
        time.sleep(REPLAY_POLL_SECONDS)
    for partition, items in entries.items():
        if items:
            tq.kv_clear(keys=list(items), partition_id=partition)
    replicas.resume_generation_replicas()
    replicas.sleep_replicas()
    return sum(map(len, entries.values()))


def _running(entries: dict[str, dict[str, dict[str, Any]]]) -> int:
    return sum(
        bool(tag.get("is_prompt")) and tag["status"] in {"pending", "running"}
        for items in entries.values()
        for tag in items.values()
    )
