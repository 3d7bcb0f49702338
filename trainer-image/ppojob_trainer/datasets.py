"""Which data an attempt had: a SHA-256 of its files' content, so that a change under a run is seen.

All of each file is read, beside the start-up, which takes longer; nothing waits for it.
"""

import hashlib
import logging
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ppojob_contract.durable import read_json, write_json
from ppojob_contract.layout import AttemptLayout
from ppojob_contract.manifest import sha256

log = logging.getLogger(__name__)

_KEYS = {"train": "data.train_files", "validation": "data.val_files"}


def begin(layout: AttemptLayout, overrides: Mapping[str, Any]) -> threading.Thread:
    """Reads the files that verl's keys name and writes `dataset.json`; a daemon, which the end of training ends."""
    files = {kind: [str(path) for path in overrides.get(key) or []] for kind, key in _KEYS.items()}
    thread = threading.Thread(target=record, args=(layout, files), name="datasets", daemon=True)
    thread.start()
    return thread


def record(layout: AttemptLayout, files: Mapping[str, Sequence[str]]) -> None:
    """Failing is left to who reads the data in earnest."""
    try:
        found = {
            kind: [{"path": path, "bytes": Path(path).stat().st_size, "sha256": sha256(Path(path))} for path in paths]
            for kind, paths in files.items()
        }
        content = "".join(f"{kind} {item['sha256']}\n" for kind, items in found.items() for item in items)
        write_json(layout.dataset, {"sha256": hashlib.sha256(content.encode()).hexdigest(), "files": found})
    except OSError as error:
        log.warning("no checksum of the data: %s", error)


def digest_of(layout: AttemptLayout) -> str | None:
    """Of all its files; None where it is not known (yet)."""
    value = read_json(layout.dataset)
    return None if value is None else str(value["sha256"])


def carry_on(before: AttemptLayout, after: AttemptLayout) -> None:
    """An attempt that goes on in the same process has the data that the one before had read."""
    value = read_json(before.dataset)
    if value is not None:
        write_json(after.dataset, value)
