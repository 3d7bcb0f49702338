"""`python -m tests.bench.scale [--jobs N]`: what the operator costs with many jobs that train and have no new step.

Real: the operator, the API server. Played: KubeRay (a head pod for each RayCluster, a status for each RayJob) and the
monitors, one process that answers on an address of its own for each job.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web
from tests.bench.own_api import OwnApi, own_api
from tests.cluster.settings import paths
from tests.cluster.tools import KUBERAY
from tests.support.kube import REPOSITORY

from ppojob_contract import protocol
from ppojob_contract.journal import RowKind
from ppojob_contract.names import LABEL_JOB_UID, MONITOR_PORT
from ppojob_contract.protocol import AttemptState, LockState, State, StepRow, Steps

NAMESPACE = "bench"
ROWS = 5
WATCHED_SECONDS = 60


class Monitors:
    """All jobs' monitors; which one is asked shows in the address."""

    def __init__(self) -> None:
        self.uids: dict[str, str] = {}

    async def serve(self) -> None:
        app = web.Application()
        app.add_routes([web.get(protocol.STATE_PATH, self.state), web.get(protocol.STEPS_PATH, self.steps)])
        app.add_routes([web.put(protocol.CONFIRMED_PATH, self.confirmed)])
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "0.0.0.0", MONITOR_PORT, backlog=4096).start()  # noqa: S104 - every 127.x address

    def _uid(self, request: web.Request) -> str:
        assert request.transport is not None
        return self.uids[request.transport.get_extra_info("sockname")[0]]

    async def state(self, request: web.Request) -> web.Response:
        attempt = AttemptState(
            attempt=1,
            rows=ROWS,
            last_step=ROWS,
            last_heartbeat_age_seconds=1.0,
            command=None,
            claimed_by=None,
            ack=None,
            outcome=None,
        )
        state = State(
            job_uid=self._uid(request),
            pod_uid="pod",
            lock=LockState.FREE,  # as before the RayJob is there: an attempt is not begun while a driver holds it
            attempts=(attempt,),
            checkpoints=(),
            confirmed=(),
        )
        return web.json_response(state.to_json())

    async def steps(self, request: web.Request) -> web.Response:
        after, uid = int(request.query["after"]), self._uid(request)
        values = {"kl": 0.01, "gradNorm": 1.0, "rewardMean": 0.5, "stepSeconds": 60.0}
        rows = [StepRow(kind=RowKind.STEP, step=step, time=0.0, values=values) for step in range(1, ROWS + 1)][after:]
        if not rows:
            await asyncio.sleep(float(request.query.get("wait", "0")))
        answer = Steps(job_uid=uid, pod_uid="pod", attempt=1, after=after, rows=tuple(rows))
        return web.json_response(answer.to_json())

    async def confirmed(self, request: web.Request) -> web.Response:
        return web.json_response(await request.json())


class Client:
    """JSON over the API server's paths."""

    def __init__(self, api: OwnApi, session: aiohttp.ClientSession) -> None:
        self._api, self._session = api, session

    async def call(self, method: str, path: str, body: Any = None, patch: bool = False) -> Any:
        kind = "application/merge-patch+json" if patch else "application/json"
        headers = {"Authorization": f"Bearer {self._api.token}", "Content-Type": kind}
        async with self._session.request(
            method, self._api.url + path, json=body, headers=headers, ssl=False
        ) as response:
            answer = await response.json()
            assert response.status < 300, answer
            return answer


async def play_kuberay(client: Client, monitors: Monitors, operator: Operator, until: int) -> None:
    """A ready head pod for each RayCluster, RUNNING for each RayJob, until so many RayJobs run."""
    pods: set[str] = set()
    running: set[str] = set()
    ray = f"/apis/ray.io/v1/namespaces/{NAMESPACE}"
    while len(running) < until:
        operator.keep_alive()
        clusters, jobs = [(await client.call("GET", f"{ray}/{kind}"))["items"] for kind in ("rayclusters", "rayjobs")]
        for cluster in clusters:
            if cluster["metadata"]["uid"] not in pods:
                pods.add(cluster["metadata"]["uid"])
                await _head_pod(client, monitors, cluster, len(pods))
        for job in jobs:
            name = job["metadata"]["name"]
            if name not in running:
                running.add(name)
                status = {"jobStatus": "RUNNING", "jobDeploymentStatus": "Running"}
                await client.call("PATCH", f"{ray}/rayjobs/{name}/status", {"status": status}, patch=True)
        print(f"\r{len(pods)} head pods, {len(running)} RayJobs", end="", flush=True)
        await asyncio.sleep(0.5)
    print()


async def _head_pod(client: Client, monitors: Monitors, cluster: dict[str, Any], number: int) -> None:
    metadata, template = cluster["metadata"], cluster["spec"]["headGroupSpec"]["template"]
    labels = template["metadata"]["labels"] | {"ray.io/node-type": "head", "ray.io/cluster": metadata["name"]}
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": metadata["name"], "uid": metadata["uid"]}
    pod = {
        "metadata": {
            "name": f"{metadata['name']}-head",
            "labels": labels,
            "ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {"schedulerName": "nobody", "containers": [{"name": "ray", "image": "none"}]},
    }
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    await client.call("POST", path, pod)
    address = f"127.1.{number // 250}.{number % 250 + 1}"
    monitors.uids[address] = labels[LABEL_JOB_UID]
    ready = {"name": "ray", "ready": True, "restartCount": 0, "image": "none", "imageID": "", "state": {"running": {}}}
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "containerStatuses": [ready]}
    await client.call("PATCH", f"{path}/{metadata['name']}-head/status", {"status": status}, patch=True)


class Operator:
    """Its process. One that ends is started again, as by a kubelet: on a busy machine it may lose its Lease, and then
    ends by design.
    """

    def __init__(self, api: OwnApi) -> None:
        self._environment = os.environ | {"KUBECONFIG": str(api.kubeconfig)}
        self.log = Path(tempfile.mkstemp(prefix="ppojob-operator-", suffix=".log")[1])
        self.restarts = 0
        self._process = self._start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def keep_alive(self) -> None:
        if self._process.poll() is not None:
            self.restarts += 1
            print(f"\nthe operator ended with {self._process.returncode} and is started again; see {self.log}")
            self._process = self._start()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "ppojob_operator", "run", "--image-cpu", "none", "--metrics-port", "0"]
        with self.log.open("ab") as log:
            return subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)


@contextmanager
def operator_at_work(api: OwnApi) -> Iterator[Operator]:
    """While the block runs; where it logs is printed."""
    operator = Operator(api)
    print(f"the operator logs to {operator.log}")
    try:
        yield operator
    finally:
        operator.stop()


async def measure(api: OwnApi, jobs: int) -> None:
    monitors = Monitors()
    await monitors.serve()
    async with aiohttp.ClientSession() as session:
        client = Client(api, session)
        await _install(client)
        with operator_at_work(api) as operator:
            await asyncio.sleep(5)
            empty = _resident(operator.pid)
            began = time.monotonic()
            await _create(client, jobs)
            created = time.monotonic() - began
            await play_kuberay(client, monitors, operator, jobs)
            started = time.monotonic() - began
            await asyncio.sleep(60)
            cpu, wall = _cpu(operator.pid), time.monotonic()
            await asyncio.sleep(WATCHED_SECONDS)
            share = (_cpu(operator.pid) - cpu) / (time.monotonic() - wall)
            phases = await _phases(client)
            memory = _resident(operator.pid)
        print(f"{jobs} jobs created in {created:.0f} s, all RayJobs created after {started:.0f} s; phases {phases}")
        print(
            f"operator: {operator.restarts} restarts, {memory:.0f} MB ({empty:.0f} MB without jobs), "
            f"{100 * share:.1f} % of a core"
        )


async def _install(client: Client) -> None:
    bases = KUBERAY.folder(paths()) / "config" / "crd" / "bases"
    crds = [*(REPOSITORY / "crds").glob("*.yaml"), bases / "ray.io_rayclusters.yaml", bases / "ray.io_rayjobs.yaml"]
    for crd in crds:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await client.call("POST", path, yaml.safe_load(crd.read_text()))
    await client.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    path = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
    await client.call("POST", path, {"metadata": {"name": "ppojob"}, "spec": claim})


async def _create(client: Client, jobs: int) -> None:
    documents = yaml.safe_load_all((REPOSITORY / "examples" / "rollback.yaml").read_text())
    job = next(item for item in documents if item and item["kind"] == "PPOJob")
    path = f"/apis/rlhf.dev/v1alpha1/namespaces/{NAMESPACE}/ppojobs"
    for number in range(jobs):
        await client.call("POST", path, job | {"metadata": {"name": f"job-{number}"}})


async def _phases(client: Client) -> dict[str, int]:
    items = (await client.call("GET", f"/apis/rlhf.dev/v1alpha1/namespaces/{NAMESPACE}/ppojobs"))["items"]
    found = [item.get("status", {}).get("phase", "none") for item in items]
    return {phase: found.count(phase) for phase in sorted(set(found))}


def _resident(process: int) -> float:
    """MB."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _cpu(process: int) -> float:
    """Seconds used so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    jobs = parser.parse_args().jobs
    with own_api(paths()) as api:
        asyncio.run(measure(api, jobs))


if __name__ == "__main__":
    main()
