"""`python -m tests.bench.rollback`: the same breach taken back by the operator and by KubeRay's own retry.

KubeRay's way to start again is a RayJob with `backoffLimit: 1`: it deletes the cluster and makes another. Both train
the same example with the same trainer on the same node, one after the other; all times are of this machine's clock.
"""

from __future__ import annotations

import json
import time
from typing import Any

from tests.cluster import images
from tests.support.kube import REPOSITORY, Kube, wait_for
from tests.support.run import Run

from ppojob_contract.attempt import AttemptConfig
from ppojob_contract.journal import Row, RowKind, read
from ppojob_contract.layout import JobLayout
from ppojob_operator.api.v1alpha1.resource import PPOJob
from ppojob_operator.api.v1alpha1.spec import Device
from ppojob_operator.api.v1alpha1.status import ResumePoint
from ppojob_operator.domain.acceptance import accept
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.render.raycluster import render_cluster
from ppojob_operator.render.rayjob import attempt_config
from ppojob_operator.render.settings import RenderSettings

NAMESPACE = "bench-rollback"
LIMIT_SECONDS = 900

RETRYING = """
import json, os, pathlib, subprocess, sys
first, second = json.loads(os.environ["BENCH_ATTEMPTS"])
ran_before = pathlib.Path(first["root"], "attempts", "0001", "outcome.json").exists()
os.environ["PPOJOB_ATTEMPT"] = json.dumps(second if ran_before else first)
code = subprocess.run(["ppojob-train"]).returncode
sys.exit(code if ran_before else 1)
"""


def main() -> None:
    kube = Kube.connect()
    kube.install_operator()
    kube.fresh_namespace(NAMESPACE)
    run = Run.of(kube, NAMESPACE, (REPOSITORY / "examples" / "rollback.yaml").read_text())
    ours = by_the_operator(run)
    accepted, _, _ = accept(PPOJob.from_object(run.job))
    assert accepted is not None, "the example is accepted"
    theirs = by_kuberay(run, accepted, ours["breach step"], ours["target"])
    print(
        f"\nbreach at step {ours['breach step']}, back to step {ours['target']}; seconds after the breach was logged\n"
    )
    print(f"{'':34}{'PPOJob, cold':>16}{'KubeRay retry':>16}")
    for what in ("old driver gone", "old RayJob deleted", "first step of the next attempt"):
        print(f"{what:34}{_cell(ours.get(what)):>16}{_cell(theirs.get(what)):>16}")
    kube.kubectl("delete", "namespace", NAMESPACE, "--wait", "--timeout=170s")


def by_the_operator(run: Run) -> dict[str, Any]:
    """The example as it is."""
    run.apply()
    run.wait("the rollback", lambda status: status.get("intent", {}).get("kind") == "Rollback", LIMIT_SECONDS)
    status = run.status
    breach = next(row for row in steps(run.layout, 1) if row.step == status["rollbackMark"])
    wait_for("the old RayJob is gone", lambda: not _ray_job(run, "-a1"), seconds=300, every=0.1)
    deleted = time.time()
    status = run.wait_for_step(1, attempt=2)
    first = steps(run.layout, 2)[0]
    outcome = run.layout.attempt(1).outcome.stat().st_mtime
    run.wait_for_end()
    return {
        "breach step": breach.step,
        "target": status["attempt"]["resume"]["step"],
        "old driver gone": outcome - breach.time,
        "old RayJob deleted": deleted - breach.time,
        "first step of the next attempt": first.time - breach.time,
    }


def by_kuberay(run: Run, accepted: AcceptedJob, breach_step: int, target: int) -> dict[str, Any]:
    """The same training under a RayJob that fails at the breach and is retried once."""
    root = f"/ppojob/storage/{NAMESPACE}/plain"
    folder = run.layout.root.parent / "plain"
    folder.mkdir()
    folder.chmod(0o777)
    layout = JobLayout(folder)
    first, second = (_config(accepted, root, attempt, target) for attempt in (1, 2))
    first["totalSteps"] = breach_step
    run.kube.kubectl.apply_objects([_ray_job_object(run, accepted, [first, second])])
    wait_for("the failure", layout.attempt(1).outcome.exists, seconds=LIMIT_SECONDS, every=0.5)
    failed = steps(layout, 1)[-1].time
    wait_for("the next attempt's first step", lambda: steps(layout, 2) or None, seconds=LIMIT_SECONDS, every=0.5)
    gone = layout.attempt(1).outcome.stat().st_mtime
    again = steps(layout, 2)[0].time
    run.kube.kubectl("delete", "rayjob", "plain", "--namespace", NAMESPACE, "--wait", "--timeout=170s")
    return {"old driver gone": gone - failed, "first step of the next attempt": again - failed}


def steps(layout: JobLayout, attempt: int) -> list[Row]:
    return [row for row, _ in read(layout.attempt(attempt).journal) if row.kind is RowKind.STEP]


def _config(accepted: AcceptedJob, root: str, attempt: int, target: int) -> dict[str, Any]:
    resume = ResumePoint(attempt=1, step=target) if attempt == 2 else None
    config = attempt_config(accepted, attempt=attempt, resume=resume, adjustments=())
    return AttemptConfig.from_json(config.to_json() | {"root": root}).to_json()


def _ray_job_object(run: Run, accepted: AcceptedJob, attempts: list[dict[str, Any]]) -> dict[str, Any]:
    image = images.project_image(run.kube.paths, "trainer-cpu")
    cluster = render_cluster(accepted, 1, RenderSettings(images={Device.CPU: image}))
    environment = {"env_vars": {"BENCH_ATTEMPTS": json.dumps(attempts).replace("$", "\\u0024")}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "plain", "namespace": NAMESPACE},
        "spec": {
            "submissionMode": "HTTPMode",
            "entrypoint": f"python3 -c '{RETRYING}'",
            "runtimeEnvYAML": json.dumps(environment),
            "backoffLimit": 1,
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": cluster["spec"],
        },
    }


def _ray_job(run: Run, suffix: str) -> bool:
    return any(item["metadata"]["name"].endswith(suffix) for item in run.kube.items("rayjobs", run.namespace))


def _cell(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f}"


if __name__ == "__main__":
    main()
