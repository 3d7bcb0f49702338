"""Lines for a person: progress while a job runs, a summary when it has ended."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

from tests.support.kube import Kube, TookTooLong


class Follower:
    """Prints events and steps as they come."""

    def __init__(self, kube: Kube, namespace: str, name: str) -> None:
        self._kube, self._namespace, self._name = kube, namespace, name
        self._began = time.monotonic()
        self._events: set[str] = set()
        self._line = ""

    def follow(self, limit_seconds: float) -> dict[str, Any]:
        """The job once it has ended. Raises `TookTooLong`."""
        while time.monotonic() < self._began + limit_seconds:
            job = self._kube.get("ppojobs.rlhf.dev", self._name, self._namespace)
            self._tell_events()
            if job and job.get("status"):
                self._tell_progress(job["status"])
                if job["status"].get("finished"):
                    self._tell_events()
                    return job
            time.sleep(1)
        raise TookTooLong(f"{self._name} did not end within {limit_seconds:.0f} s")

    def _tell_events(self) -> None:
        selector = f"involvedObject.name={self._name},involvedObject.kind=PPOJob"
        events = self._kube.kubectl.read("events", "--namespace", self._namespace, "--field-selector", selector)
        for event in sorted(events["items"], key=lambda item: item["metadata"]["creationTimestamp"]):
            if event["metadata"]["uid"] not in self._events:
                self._events.add(event["metadata"]["uid"])
                mark = "!" if event["type"] == "Warning" else "*"
                self._say(f"{mark} {event['reason']}: {event['message']}")

    def _tell_progress(self, status: dict[str, Any]) -> None:
        line = progress(status)
        if line != self._line:
            self._line = line
            self._say(line)

    def _say(self, line: str) -> None:
        print(f"{time.monotonic() - self._began:6.0f} s  {line}", flush=True)


def progress(status: dict[str, Any]) -> str:
    """One line: phase, attempt, step, figures, newest confirmed checkpoint, verdicts."""
    parts = [f"{status['phase']:<12}"]
    attempt, done, figures = status.get("attempt"), status.get("progress"), status.get("metrics", {})
    if attempt:
        parts.append(f"attempt {attempt['number']}")
    if done and attempt and attempt.get("firstStep"):
        parts.append(f"step {done['step']:>3}/{done['totalSteps']}")
        parts.append(f"KL {_short(figures.get('kl'))}  reward {_short(figures.get('rewardMean'))}")
        confirmed = status.get("checkpoints", {}).get("confirmed")
        parts.append(f"confirmed {confirmed['step'] if confirmed else '-'}")
        parts += [f"{item['name']} {item['verdict']}" for item in status.get("guardrails", [])]
    elif status.get("message"):
        parts.append(status["message"][:110])
    return "  ".join(parts)


def _short(value: str | None) -> str:
    return f"{float(value):8.4f}" if value else "       -"


def summary(kube: Kube, namespace: str, job: dict[str, Any]) -> str:
    """What happened, from the status and from Prometheus."""
    status, name = job["status"], job["metadata"]["name"]
    lines = [
        "",
        f"PPOJob {name}: {status['phase']}, rollbacks {status['rollbacks']}, restarts {status['restarts']}",
        "",
    ]
    lines += ["attempt  from step  last step  seconds  ended as"]
    for attempt in status.get("attempts", []):
        resume = attempt.get("resume")
        seconds = (_time(attempt["ended"]) - _time(attempt["created"])).total_seconds()
        lines.append(
            f"{attempt['number']:>7}  {resume['step'] if resume else 0:>9}  {attempt.get('lastStep', 0):>9}"
            f"  {seconds:>7.0f}  {attempt.get('result', '')}"
        )
    lines += [f"  {item['parameter']} = {item['value']:g} since the rollback" for item in status.get("adjustments", [])]
    lines += ["", "checkpoints: " + _checkpoints(status), "", "from Prometheus:"]
    selector = f'{{namespace="{namespace}",ppojob="{name}"}}'
    for metric, title in (("ppojob_kl", "highest KL"), ("ppojob_reward_mean", "highest reward")):
        values = kube.values(f"max_over_time({metric}{selector}[20m])")
        lines.append(f"  {title:<16} {values[0]:.4f}" if values else f"  {title:<16} no data")
    lines += ["", f"look closer: kubectl describe ppojob {name} --namespace {namespace}"]
    return "\n".join(lines)


def _checkpoints(status: dict[str, Any]) -> str:
    items = status.get("checkpoints", {}).get("items", [])
    return ", ".join(f"{item['attempt']}/{item['step']} {item['phase']}" for item in items)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
