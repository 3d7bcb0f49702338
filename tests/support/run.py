"""One PPOJob on the real cluster, seen from outside: the API, events, the claim's files."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tests.support.kube import Kube, wait_for

from ppojob_contract.journal import Row, read
from ppojob_contract.layout import JobLayout, job_folder

RUN_SECONDS = 900
"""A training of the examples with one rollback takes three to four minutes on two cores."""


@dataclass(frozen=True, slots=True)
class Run:
    """A job by its manifest."""

    kube: Kube
    namespace: str
    name: str
    objects: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, kube: Kube, namespace: str, manifest: str) -> Run:
        objects = tuple(item for item in yaml.safe_load_all(manifest) if item)
        job = next(item for item in objects if item["kind"] == "PPOJob")
        return cls(kube, namespace, job["metadata"]["name"], objects)

    def named(self, name: str) -> Run:
        """The same job under another name."""
        next(item for item in self.objects if item["kind"] == "PPOJob")["metadata"]["name"] = name
        return Run(self.kube, self.namespace, name, self.objects)

    @property
    def spec(self) -> dict[str, Any]:
        """Of the manifest; change it before `apply`."""
        spec: dict[str, Any] = next(item for item in self.objects if item["kind"] == "PPOJob")["spec"]
        return spec

    def apply(self) -> None:
        self.kube.apply(yaml.safe_dump_all(self.objects), self.namespace)

    def apply_claim(self) -> None:
        """Only the volume claim, to be filled before the job is there."""
        claim = [item for item in self.objects if item["kind"] == "PersistentVolumeClaim"]
        self.kube.apply(yaml.safe_dump_all(claim), self.namespace)

    def remove(self) -> None:
        """The job, then its namespace: a namespace that still has pods is looked at again after their grace only."""
        wait = ("--wait", "--timeout=170s")
        self.kube.kubectl("delete", "ppojobs.rlhf.dev", self.name, "-n", self.namespace, "--cascade=foreground", *wait)
        self.kube.kubectl("delete", "namespace", self.namespace, *wait)

    def patch(self, spec: dict[str, Any]) -> None:
        text = json.dumps({"spec": spec})
        self.kube.kubectl(
            "patch", "ppojobs.rlhf.dev", self.name, "-n", self.namespace, "--type", "merge", "--patch", text
        )

    @property
    def job(self) -> dict[str, Any]:
        found = self.kube.get("ppojobs.rlhf.dev", self.name, self.namespace)
        assert found is not None, f"PPOJob {self.namespace}/{self.name} is gone"
        return found

    @property
    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.job.get("status") or {}
        return status

    def condition(self, kind: str) -> dict[str, str]:
        return next((item for item in self.status.get("conditions", []) if item["type"] == kind), {})

    def wait(self, what: str, reached: Callable[[dict[str, Any]], Any], seconds: float = RUN_SECONDS) -> dict[str, Any]:
        """The status once it is as wanted; a run that has ended otherwise fails at once."""

        def look() -> dict[str, Any] | None:
            status = self.status
            if reached(status):
                return status
            assert not status.get("finished"), f"{what} never came: {json.dumps(status, indent=1)}"
            return None

        return wait_for(what, look, seconds=seconds, every=0.3)

    def wait_for_step(self, step: int, attempt: int = 1) -> dict[str, Any]:
        def reached(status: dict[str, Any]) -> bool:
            current = status.get("attempt", {})
            return bool(current.get("number") == attempt and current.get("lastStep", 0) >= step)

        return self.wait(f"step {step} of attempt {attempt}", reached)

    def wait_for_end(self, seconds: float = RUN_SECONDS) -> dict[str, Any]:
        return self.wait("the end", lambda status: status.get("finished"), seconds)

    def wait_for_failure(self, reason: str) -> tuple[dict[str, Any], str]:
        """The status and why, once the job has failed for this reason."""
        status, failed = self.wait_for_end(), self.condition("Failed")
        print(failed["message"])
        assert (status["phase"], failed["reason"]) == ("Failed", reason)
        return status, failed["message"]

    def events(self) -> list[dict[str, Any]]:
        """Oldest first."""
        selector = f"involvedObject.kind=PPOJob,involvedObject.name={self.name}"
        items = self.kube.kubectl.read("events", "-n", self.namespace, "--field-selector", selector)["items"]
        return sorted(items, key=lambda item: (item["metadata"]["creationTimestamp"], item["metadata"]["name"]))

    def reasons(self) -> list[str]:
        return [event["reason"] for event in self.events()]

    @property
    def volume(self) -> Path:
        """The claim, where it is a folder of this machine; it must be bound."""
        claim = self.kube.get("persistentvolumeclaim", self.spec["storage"]["claimName"], self.namespace)
        assert claim is not None, "the claim is there"
        volume = self.kube.kubectl.read("persistentvolume", claim["spec"]["volumeName"])
        return Path(volume["spec"]["hostPath"]["path"])

    @property
    def layout(self) -> JobLayout:
        """The job's files, where the claim is a folder of this machine."""
        root = self.volume / self.spec["storage"].get("path", "")
        metadata = self.job["metadata"]
        return JobLayout(root / job_folder(self.namespace, self.name, metadata["uid"]))

    def journal(self, attempt: int) -> list[Row]:
        return [row for row, _ in read(self.layout.attempt(attempt).journal)]

    @contextmanager
    def frozen(self, program: str) -> Iterator[None]:
        """The program's process in the job's pods neither works nor ends (SIGSTOP), as on a stuck node."""
        process = self._process(program)
        os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(process, signal.SIGCONT)

    def _process(self, program: str) -> int:
        """A Python process of this job's pods by its program; the node runs on this machine."""
        uid = f"PPOJOB_UID={self.job['metadata']['uid']}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                command = (folder / "cmdline").read_bytes().split(b"\0")
                environment = (folder / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            names = [Path(os.fsdecode(part)).name for part in command[:2]]
            if names[0].startswith("python") and program in names and uid in environment:
                return int(folder.name)
        raise AssertionError(f"no process {program} of {self.name} on this machine")
