"""A volume that is full when a checkpoint is saved."""

from __future__ import annotations

import time
from typing import Any

from tests.faults.damage import SMALL_VOLUME, fill, small_volume
from tests.faults.matrix import confirmed, happened, missing
from tests.faults.result import Result
from tests.support.kube import REPOSITORY, Kube
from tests.support.run import Run

NAMESPACE = "faults-full"
KEY = ("cold", "volume full", "during a save")
ROOM_BYTES = 256 * 1024
"""For the journal and the outcome, but not for a checkpoint."""


def inflict(kube: Kube) -> Result:
    """Somebody fills the volume after a checkpoint was confirmed, and makes room again after the save has failed."""
    result = Result(*KEY)
    kube.fresh_namespace(NAMESPACE)
    with small_volume(kube) as folder:
        run = Run.of(kube, NAMESPACE, (REPOSITORY / "examples" / "minimal.yaml").read_text())
        claim = next(item for item in run.objects if item["kind"] == "PersistentVolumeClaim")
        claim["spec"] |= {"storageClassName": "", "volumeName": SMALL_VOLUME}
        claim["spec"]["resources"] = {"requests": {"storage": "32Mi"}}
        run.spec["training"]["totalSteps"] = 60
        run.spec["checkpoints"] = {"everySteps": 5, "confirmSteps": 2}
        run.apply()
        run.wait("a confirmed checkpoint", lambda status: status.get("checkpoints", {}).get("confirmed"))
        layout = run.layout
        trusted = confirmed(layout)
        before = run.status

        def failed(status: dict[str, Any]) -> bool:
            """Whatever the deletion of old checkpoints frees is taken at once."""
            fill(folder, ROOM_BYTES)
            return bool(status["restarts"] > before["restarts"])

        run.wait("the failed save", failed)
        filler = fill(folder, ROOM_BYTES)
        outcome = layout.attempt(before["attempt"]["number"]).outcome.read_text()
        result.lost = tuple(missing(layout, trusted))
        filler.unlink()
        freed = time.time()
        status = run.wait_for_end()
        result.happened = happened(status, before["attempt"]["number"])
        result.steps_again = before["progress"]["step"] - trusted[-1].step
        result.seconds = next(row.time for row in run.journal(status["attempt"]["number"]) if row.time > freed) - freed
        if status["phase"] != "Succeeded":
            result.wrong += (f"ended as {status['phase']}: {status['message']}",)
        if "StorageError" not in outcome:
            result.wrong += (f"told as {outcome}",)
        run.remove()
    return result
