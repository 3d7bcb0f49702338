"""`python -m tests.bench.rollback`: the same breach taken back in the running trainer, by a new one, and by KubeRay.

KubeRay's way to start again is a RayJob with `backoffLimit: 1`: it deletes the cluster and makes another. All train
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
SHARED = ("old driver gone", "old RayJob deleted", "first step of the next attempt")

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
    hot, cold = (by_the_operator(kube, name, mode) for name, mode in (("hot", "Auto"), ("cold", "Cold")))
    accepted, _, _ = accept(PPOJob.from_object(cold.pop("run").job))
    assert accepted is not None, "the example is accepted"
    theirs = by_kuberay(hot.pop("run"), accepted, cold["breach step"], cold["target"])
    print("\nseconds after the breach was logged\n")
    print(f"{'':34}{'PPOJob, hot':>16}{'PPOJob, cold':>16}{'KubeRay retry':>16}")
    for what in ("breach step", "target", "steps lost", "command in the mailbox", "checkpoint loaded", *SHARED):
        print(f"{what:34}" + "".join(f"{_cell(column.get(what)):>16}" for column in (hot, cold, theirs)))
    first = SHARED[-1]
    print(f"\nhot is {cold[first] / hot[first]:.1f} times as fast as cold, {theirs[first] / hot[first]:.1f} as KubeRay")
    kube.kubectl("delete", "namespace", NAMESPACE, "--wait", "--timeout=170s")


def by_the_operator(kube: Kube, name: str, mode: str) -> dict[str, Any]:
    """The example, with that way of rolling back."""
    run = Run.of(kube, NAMESPACE, (REPOSITORY / "examples" / "rollback.yaml").read_text()).named(name)
    run.spec["rollback"]["path"] = mode
    run.apply()
    run.wait("the rollback", lambda status: status.get("rollbacks"), LIMIT_SECONDS)
    told: dict[str, Any] = {"run": run}
    if mode == "Cold":
        wait_for("the old RayJob is gone", lambda: not _ray_job(run, "-a1"), seconds=300, every=0.1)
        told["old RayJob deleted"] = time.time()
    status = run.wait_for_step(1, attempt=2)
    breach = next(row for row in steps(run.layout, 1) if row.step == status["rollbackMark"])
    before, target = run.layout.attempt(1), status["attempt"]["resume"]["step"]
    told["command in the mailbox"] = before.command.stat().st_mtime
    if mode == "Cold":
        told["old driver gone"] = before.outcome.stat().st_mtime
    else:
        told["checkpoint loaded"] = before.ack.stat().st_mtime
    told["first step of the next attempt"] = steps(run.layout, 2)[0].time
    told = {what: value - breach.time if isinstance(value, float) else value for what, value in told.items()}
    run.wait_for_end()
    return told | {"breach step": breach.step, "target": target, "steps lost": breach.step - target}


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
    return {
        "breach step": breach_step,
        "target": target,
        "steps lost": breach_step - target,
        "old driver gone": gone - failed,
        "first step of the next attempt": again - failed,
    }


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


def _cell(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
