"""The end of what the driver printed, kept on the claim: Ray's own log of it goes with the pod."""

import os
import stat
from pathlib import Path

from ppojob_contract.durable import sync_directory
from ppojob_trainer.redaction import redact

KEPT_BYTES = 256 * 1024
_STDOUT = 1


def keep(target: Path, printed: int = _STDOUT) -> bool:
    """Writes `target`; False, and no effect, where what was printed went to no file or the claim takes no more.

    Ray lets a job's entry print into a file (ray `dashboard/modules/job/job_supervisor.py`), stderr included, and what
    workers print comes there too.
    """
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with Path(f"/proc/self/fd/{printed}").open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return False
            file.seek(max(0, size - KEPT_BYTES))
            text = redact(file.read(KEPT_BYTES).decode(errors="replace"))
        with temporary.open("w", encoding="utf-8") as file_out:
            file_out.write(text)
            file_out.flush()
            os.fsync(file_out.fileno())
        temporary.replace(target)
        sync_directory(target.parent)
    except OSError:
        temporary.unlink(missing_ok=True)
        return False
    return True
