"""Files of samples: a line a sample, a file a step, `samples/{train,validation}/step_<N>.jsonl` beside the journal.

The newest steps are always there, so that those of a failing window can be kept when it turns out to be one; of the
others, every `trainEverySteps`-th. A file is written beside and renamed, so that a reader never sees half of one.
"""

import contextlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ppojob_contract.attempt import SampleSettings
from ppojob_contract.layout import AttemptLayout
from ppojob_contract.numbers import plain

log = logging.getLogger(__name__)

TRAIN, VALIDATION = "train", "validation"

WINDOW_STEPS = 50
"""Of the newest steps, all are there, as far as they fit into `WINDOW_BYTES`."""
WINDOW_BYTES = 256 << 20

_LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}

Lines = Callable[[], Iterable[Mapping[str, Any]]]
"""Makes the samples of a file; called where they are written."""


def name(step: int) -> str:
    return f"step_{step}.jsonl"


def in_one_line(value: Mapping[str, Any]) -> str:
    """JSON without any character that a reader might take for the end of a line: models write them all."""
    return json.dumps(plain(dict(value)), ensure_ascii=False).translate(_LINE_ENDS)


def unwanted(sizes: Mapping[int, int], settings: SampleSettings, kind: str) -> list[int]:
    """Steps whose files may go, given the bytes of each that is there."""
    newest = sorted(sizes, reverse=True)
    if kind == VALIDATION:
        return newest[settings.keep_last :]
    window: set[int] = set()
    used = 0
    for step in newest[:WINDOW_STEPS]:
        used += sizes[step]
        if window and used > WINDOW_BYTES:
            break
        window.add(step)
    kept = {step for step in newest if step % settings.every_steps == 0}
    kept = set(sorted(kept, reverse=True)[: settings.keep_last])
    return sorted(set(sizes) - window - kept)


class SampleFiles:
    """The files of one attempt, written by one thread: making text of tokens must not hold training up."""

    def __init__(self, layout: AttemptLayout, settings: SampleSettings) -> None:
        self.layout = layout
        self._settings = settings
        self._sizes: dict[str, dict[int, int]] = {TRAIN: {}, VALIDATION: {}}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="samples")
        self._pending: Future[None] | None = None

    def write(self, kind: str, step: int, lines: Lines) -> None:
        """Has the file written; waits for the one before, so that no more than two steps' samples are in memory."""
        if kind == VALIDATION and not self._settings.validation:
            return
        self.flush()
        self._pending = self._thread.submit(self._write, kind, step, lines)

    def flush(self) -> None:
        """Everything that was given is on the volume."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def _write(self, kind: str, step: int, lines: Lines) -> None:
        """What is wrong with a file of samples is no reason to stop training."""
        folder = self.layout.samples / kind
        temporary = folder / f".{name(step)}.tmp"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with temporary.open("w", encoding="utf-8") as file:
                for line in lines():
                    file.write(in_one_line(line) + "\n")
            sizes = self._sizes[kind]
            sizes[step] = temporary.stat().st_size
            temporary.replace(folder / name(step))
            for old in unwanted(sizes, self._settings, kind):
                del sizes[old]
                (folder / name(old)).unlink(missing_ok=True)
        except Exception:
            log.exception("samples of step %d are not written", step)
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)  # the volume may be full
