"""A small world behind the ports: an API server, KubeRay, a claim and trainers that do what a script says.

Time passes only by `tick`. Everything that the controller does to the world goes through `effect`, where a test can
make it crash before or after the effect, as a killed operator would.
"""

import dataclasses
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import yaml
from tests.support.builders import NOW, UID, raw_spec
from tests.support.fake_stages import FakeStages

from ppojob_contract.attempt import AttemptConfig, Resume
from ppojob_contract.journal import CHECKPOINT_SAVED, RowKind
from ppojob_contract.mailbox import Ack, AckResult, CheckpointRef, Claimant, Command, CommandKind
from ppojob_contract.names import ENV_ATTEMPT, ENV_STAGE
from ppojob_contract.outcomes import ExitClass, Outcome
from ppojob_contract.protocol import (
    AttemptState,
    CheckpointState,
    Deletion,
    LockState,
    Refusal,
    State,
    StepRow,
    Steps,
)
from ppojob_contract.stages import Stage
from ppojob_operator.api.v1alpha1.resource import PPOJob
from ppojob_operator.domain.events import Event
from ppojob_operator.domain.observation import HeadPod, RayClusterView, RayJobView
from ppojob_operator.errors import ClusterUnavailable, Conflict, MonitorRefused, MonitorUnavailable
from ppojob_operator.ports import Endpoint, Key
from ppojob_operator.render import names

Script = Callable[[int, int, Mapping[str, float]], dict[str, float]]
"""(attempt, step, settings) to the figures of that step's row."""


class InPlace(StrEnum):
    """What the trainers do with a Rollback."""

    DO = "Do"
    REFUSE = "Refuse"
    FAIL = "Fail"
    """Claim it, begin the next attempt, end."""
    DIE = "Die"
    """Claim it, and be killed before the acknowledgement."""
    HANG = "Hang"
    """Claim it, and never come to an end."""
    OVERLOOK = "Overlook"
    """Never look into the mailbox; a revoked command stops them."""


NO_MANIFEST = "no manifest yet"
"""What is wrong with a checkpoint that a crash left half saved."""


class Crash(Exception):
    """The operator was killed here."""


@dataclass
class FakeCluster:
    name: str
    uid: str
    number: int
    head_uid: str
    age: int = 0
    deleting: bool = False
    head_failed: bool = False


@dataclass
class FakeRayJob:
    name: str
    uid: str
    attempt: int
    head_uid: str
    status: str = "RUNNING"
    deleting: bool = False
    duplicate: bool = False
    """Its driver finds that the attempt was started before, and ends."""
    stage: tuple[Stage, int] | None = None
    """And run, where it is no attempt's."""


@dataclass
class Attempt:
    """What is on the claim of one attempt, and the trainer that writes it."""

    config: AttemptConfig
    head_uid: str
    job_attempt: int = 0
    """Number of the RayJob that carries it."""
    rows: list[StepRow] = field(default_factory=list)
    step: int = 0
    command: Command | None = None
    claimed_by: Claimant | None = None
    ack: Ack | None = None
    claimed_for: int = 0
    stopping: int | None = None
    outcome: Outcome | None = None
    running: bool = True
    silence: float = 0.0


@dataclass
class World:
    """One namespace with one PPOJob."""

    script: Script
    spec: dict[str, Any] = field(default_factory=raw_spec)
    name: str = "job"
    start_seconds: int = 3
    stop_seconds: int = 2
    load_seconds: int = 2
    linger_seconds: int = 0
    """How long a driver lives on when its RayJob is gone: KubeRay asks it to stop once."""
    in_place: InPlace = InPlace.DO
    now: datetime = NOW
    job: dict[str, Any] | None = None
    clusters: dict[str, FakeCluster] = field(default_factory=dict)
    ray_jobs: dict[str, FakeRayJob] = field(default_factory=dict)
    attempts: dict[int, Attempt] = field(default_factory=dict)
    checkpoints: dict[CheckpointRef, str | None] = field(default_factory=dict)
    confirmed: list[CheckpointRef] = field(default_factory=list)
    deleted: list[CheckpointRef] = field(default_factory=list)
    rotten: set[CheckpointRef] = field(default_factory=set)
    """Look whole, and cannot be loaded."""
    free_bytes: int | None = None
    digests: dict[int, str] = field(default_factory=dict)
    """Of the data that each attempt read."""
    others: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Other PPOJobs of the namespace, by name."""
    revisions: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)
    tokens: dict[str, str] = field(default_factory=dict)
    terminating: dict[str, int] = field(default_factory=dict)
    """Head pods whose RayCluster is gone, with the seconds that they still have."""
    lingering: dict[int, int] = field(default_factory=dict)
    """Drivers by the attempt of their RayJob, which is gone, with the seconds that they still have."""
    stages: FakeStages = field(default_factory=FakeStages)
    claim: bool = True
    reachable: bool = True
    crash_at: Callable[[int, str], str | None] = lambda _count, _what: None
    effects: list[str] = field(default_factory=list)
    overlaps: list[tuple[int, int]] = field(default_factory=list)
    conflicting: list[int] = field(default_factory=list)
    """Attempt numbers that were asked for with two configurations."""
    uids: "itertools.count[int]" = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.job = {
            "metadata": {
                "namespace": "team",
                "name": self.name,
                "uid": UID,
                "generation": 1,
                "resourceVersion": "1",
                "creationTimestamp": NOW.isoformat(),
            },
            "spec": self.spec,
            "status": {},
        }

    @property
    def key(self) -> Key:
        return Key("team", self.name, UID)

    @property
    def status(self) -> dict[str, Any]:
        assert self.job is not None
        status: dict[str, Any] = self.job["status"]
        return status

    def clock(self) -> datetime:
        return self.now

    def edit(self, **blocks: Any) -> None:
        """What a user's `kubectl apply` of another spec does."""
        assert self.job is not None
        self.job["spec"] = self.job["spec"] | blocks
        self.job["metadata"]["generation"] += 1
        self._touch()

    def _touch(self) -> None:
        assert self.job is not None
        self.job["metadata"]["resourceVersion"] = str(int(self.job["metadata"]["resourceVersion"]) + 1)

    def uid(self, kind: str) -> str:
        return f"{kind}-{next(self.uids)}"

    def effect(self, what: str) -> Callable[[], None]:
        """Called before an effect; what it returns is called behind it.

        `crash_at` may let the operator die "before" or "after" it, or let the request be "lost" on its way, or its
        answer ("unanswered").
        """
        self.effects.append(what)
        when = self.crash_at(len(self.effects), what)
        at_monitor = what.startswith(("command", "revoke", "confirm", "delete checkpoints"))
        failure = MonitorUnavailable if at_monitor else ClusterUnavailable
        if when == "before":
            raise Crash(what)
        if when == "lost":
            raise failure(f"{what}: connection reset")

        def after() -> None:
            if when == "after":
                raise Crash(what)
            if when == "unanswered":
                raise failure(f"{what}: timed out")

        return after

    # ---- time ------------------------------------------------------------------------------------------

    def tick(self, seconds: int = 1) -> None:
        """Lets KubeRay and the trainers do a second's work, so many times."""
        for _ in range(seconds):
            self.now += timedelta(seconds=1)
            self._kuberay()
            self.stages.tick()
            for number, attempt in list(self.attempts.items()):
                if attempt.running:
                    self._train(number, attempt)
            running = [number for number, attempt in self.attempts.items() if attempt.running]
            if len(running) > 1:
                self.overlaps.append((running[0], running[1]))

    def _kuberay(self) -> None:
        for name, cluster in list(self.clusters.items()):
            cluster.age += 1
            if cluster.deleting:
                self._kill_drivers(cluster.head_uid)
                del self.clusters[name]
        self._end_what_lingers()
        for name, job in list(self.ray_jobs.items()):
            if job.deleting:
                del self.ray_jobs[name]
                if job.stage is not None:
                    self.stages.kill(stage=job.stage[0], run=job.stage[1])
                    continue
                self.lingering[job.attempt] = self.linger_seconds
                if not self.linger_seconds:
                    self._kill_job(job.attempt)
            elif job.duplicate:
                job.status = "FAILED"
            elif job.stage is not None:
                job.status = self.stages.ended(*job.stage) or job.status
            elif (attempt := self._of_job(job.attempt)) is not None and not attempt.running:
                good = attempt.outcome and attempt.outcome.exit_class in {ExitClass.SUCCEEDED, ExitClass.STOPPED}
                job.status = "SUCCEEDED" if good else "FAILED"

    def _end_what_lingers(self) -> None:
        for head_uid in list(self.terminating):
            self.terminating[head_uid] -= 1
            if self.terminating[head_uid] <= 0:
                self._kill_drivers(head_uid)
                del self.terminating[head_uid]
        for number in list(self.lingering):
            self.lingering[number] -= 1
            if self.lingering[number] <= 0:
                self._kill_job(number)
                del self.lingering[number]

    def _kill_drivers(self, head_uid: str) -> None:
        self.stages.kill(head_uid=head_uid)
        for attempt in self.attempts.values():
            if attempt.head_uid == head_uid:
                attempt.running = False

    def _kill_job(self, number: int) -> None:
        for attempt in self.attempts.values():
            if attempt.job_attempt == number:
                attempt.running = False

    def _of_job(self, number: int) -> Attempt | None:
        """The newest attempt that the RayJob carries."""
        return next((item for item in reversed(self.attempts.values()) if item.job_attempt == number), None)

    def add_other(self, manifest: dict[str, Any]) -> None:
        """Another PPOJob, which stays as it is."""
        metadata = manifest["metadata"] | {
            "uid": self.uid("other"),
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": self.now.isoformat(),
        }
        self.others[metadata["name"]] = manifest | {"metadata": metadata, "status": {}}

    def delete_clusters(self, grace_seconds: int) -> None:
        """What `kubectl delete rayclusters` does: the objects go at once, their pods end when they end."""
        for cluster in self.clusters.values():
            self.terminating[cluster.head_uid] = grace_seconds
        self.clusters.clear()

    def lose_head(self) -> None:
        """The node of every head pod dies; KubeRay makes new pods."""
        for cluster in self.clusters.values():
            self._kill_drivers(cluster.head_uid)
            cluster.head_uid, cluster.age = self.uid("pod"), 0

    def _train(self, number: int, attempt: Attempt) -> None:
        """One second of a trainer's life."""
        config = attempt.config
        if attempt.command is not None and self._obey(number, attempt, attempt.command):
            return
        if attempt.silence < self.start_seconds and not attempt.rows:
            attempt.silence += 1
            return
        if attempt.step >= config.total_steps:
            self._end(attempt, ExitClass.SUCCEEDED)
            return
        attempt.step += 1
        values = {"gradNorm": 1.0, "stepSeconds": 1.0, "failedPromptFraction": 0.0} | self.script(
            number, attempt.step, config.settings
        )
        if "raise" in values:
            self._end(attempt, list(ExitClass)[int(values["raise"])])
            return
        attempt.rows.append(StepRow(kind=RowKind.STEP, step=attempt.step, time=self.now.timestamp(), values=values))
        if attempt.step % config.overrides["trainer.save_freq"] == 0 or attempt.step == config.total_steps:
            self._save(number, attempt)
        if attempt.step >= config.total_steps:
            self._end(attempt, ExitClass.SUCCEEDED)

    def _obey(self, number: int, attempt: Attempt, command: Command) -> bool:
        """Whether the command keeps it from training."""
        if command.kind is CommandKind.ROLLBACK and attempt.claimed_by is not Claimant.MONITOR:
            if attempt.ack is not None or self.in_place is InPlace.OVERLOOK:
                return False
            self._roll_back(attempt, command)
            return True
        attempt.stopping = self.stop_seconds if attempt.stopping is None else attempt.stopping - 1
        if attempt.stopping <= 0:
            if command.kind is CommandKind.STOP and command.save and attempt.step:
                self._save(number, attempt)
            self._end(attempt, ExitClass.STOPPED)
        return True

    def _roll_back(self, attempt: Attempt, command: Command) -> None:
        """One second of it."""
        attempt.claimed_by = Claimant.TRAINER
        attempt.claimed_for += 1
        if attempt.claimed_for < self.load_seconds or self.in_place is InPlace.HANG:
            return
        assert command.target is not None
        assert command.next_attempt is not None
        if self.in_place is InPlace.REFUSE or self.checkpoints.get(command.target, "missing") is not None:
            self._acknowledge(attempt, command, AckResult.REFUSED)
            return
        resume = Resume(checkpoint=command.target)
        config = dataclasses.replace(
            attempt.config,
            attempt=command.next_attempt,
            settings=command.settings,
            resume=resume,
            data=command.data,
        )
        after = Attempt(config=config, head_uid=attempt.head_uid, job_attempt=attempt.job_attempt)
        after.step, after.silence, after.running = command.target.step, self.start_seconds, False
        assert command.next_attempt not in self.attempts, "an attempt number names one configuration for ever"
        self.attempts[command.next_attempt] = after
        attempt.running = False
        match self.in_place:
            case InPlace.FAIL:
                self._acknowledge(attempt, command, AckResult.FAILED)
                self._end(attempt, ExitClass.STORAGE_ERROR)
            case InPlace.DO:
                self._acknowledge(attempt, command, AckResult.DONE)
                after.running = True

    def _acknowledge(self, attempt: Attempt, command: Command, result: AckResult) -> None:
        attempt.ack = Ack(
            id=command.id, kind=command.kind, result=result, time=self.now.timestamp(), step=attempt.step, message="so"
        )

    def _save(self, number: int, attempt: Attempt) -> None:
        self.checkpoints.setdefault(CheckpointRef(attempt=number, step=attempt.step), None)
        event = StepRow(
            kind=RowKind.EVENT, step=attempt.step, time=self.now.timestamp(), values={}, event=CHECKPOINT_SAVED
        )
        attempt.rows.append(event)

    def _end(self, attempt: Attempt, how: ExitClass, unusable: CheckpointRef | None = None) -> None:
        attempt.outcome = Outcome(exit_class=how, message=f"ended as {how.value}", step=attempt.step, unusable=unusable)
        attempt.running = False

    def submit(self, config: AttemptConfig, head_uid: str) -> bool:
        """Ray starts the entry, which refuses to start an attempt twice."""
        known = self.attempts.get(config.attempt)
        if known is not None:
            self.conflicting += [config.attempt] if known.config != config else []
            return False
        elsewhere = config.resume is not None and config.resume.folder
        resume = config.resume.checkpoint if config.resume else None
        step = resume.step if resume and config.resume and not config.resume.weights_only else 0
        attempt = Attempt(config=config, head_uid=head_uid, job_attempt=config.attempt, step=step)
        self.attempts[config.attempt] = attempt
        if (
            resume is not None
            and not elsewhere
            and (self.checkpoints.get(resume, "missing") is not None or resume in self.rotten)
        ):
            self._end(attempt, ExitClass.STORAGE_ERROR, unusable=resume)
        return True

    def problem(self, ref: CheckpointRef) -> str | None:
        """What the monitor finds wrong with it, or knows from an attempt that could not load it."""
        failed = any(item.outcome is not None and item.outcome.unusable == ref for item in self.attempts.values())
        return self.checkpoints[ref] or ("an attempt could not load it" if failed else None)


def address(cluster: FakeCluster) -> str:
    """Of the cluster's head pod."""
    return f"10.0.0.{cluster.number}"


class FakeClusterPort:
    """`ports.Cluster` over a world."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def get_job(self, key: Key) -> PPOJob | None:
        job = self.world.job
        if job is None or job["metadata"]["uid"] != key.uid:
            return None
        return PPOJob.from_object(json.loads(json.dumps(job)))

    async def find_job(self, namespace: str, name: str) -> PPOJob | None:
        other = self.world.others.get(name)
        return PPOJob.from_object(json.loads(json.dumps(other))) if other else None

    async def write_status(self, job: PPOJob, status: dict[str, Any]) -> PPOJob:
        world = self.world
        assert world.job is not None
        if job.resource_version != world.job["metadata"]["resourceVersion"]:
            raise Conflict("the PPOJob changed")
        after = world.effect("write_status")
        world.job["status"] = json.loads(json.dumps(status))
        world._touch()
        if not world.phases or world.phases[-1] != status["phase"]:
            world.phases.append(status["phase"])
        after()
        return PPOJob.from_object(json.loads(json.dumps(world.job)))

    async def delete_job(self, job: PPOJob) -> None:
        if job.uid == UID:
            self.world.job = None
            return
        after = self.world.effect(f"delete PPOJob {job.name}")
        self.world.others.pop(job.name, None)
        after()

    async def list_clusters(self, key: Key) -> Sequence[RayClusterView]:
        return [self._view(item) for item in self.world.clusters.values()]

    async def leftover_pods(self, key: Key) -> Sequence[str]:
        return sorted(self.world.terminating)

    def _view(self, cluster: FakeCluster) -> RayClusterView:
        head = HeadPod(
            name=f"{cluster.name}-head",
            uid=cluster.head_uid,
            ip=address(cluster) if cluster.age >= 1 else None,
            ready=cluster.age >= 2,
            failed=cluster.head_failed,
            restarts=0,
        )
        return RayClusterView(
            name=cluster.name,
            uid=cluster.uid,
            number=cluster.number,
            deleting=cluster.deleting,
            head=head,
            workers_ready=0,
            workers_desired=0,
        )

    async def list_ray_jobs(self, key: Key) -> Sequence[RayJobView]:
        return [
            RayJobView(
                name=job.name,
                uid=job.uid,
                attempt=job.attempt,
                deleting=job.deleting,
                job_status=job.status,
                deployment_status="Running" if job.status == "RUNNING" else "Complete",
                stage=job.stage[0] if job.stage else None,
                run=job.stage[1] if job.stage else 0,
            )
            for job in self.world.ray_jobs.values()
        ]

    async def create(self, manifest: dict[str, Any]) -> None:
        world, name = self.world, manifest["metadata"]["name"]
        after = world.effect(f"create {manifest['kind']} {name}")
        match manifest["kind"]:
            case "Secret":
                world.tokens.setdefault(name, manifest["stringData"]["token"])
            case "RayCluster" if name not in world.clusters:
                number = names.cluster_number(name)
                assert number is not None
                world.clusters[name] = FakeCluster(name, world.uid("cluster"), number, world.uid("pod"))
            case "RayJob" if name not in world.ray_jobs:
                self._submit(manifest)
            case "PPOJob" if name not in world.others:
                world.add_other(manifest)
        after()

    def _submit(self, manifest: dict[str, Any]) -> None:
        world, name = self.world, manifest["metadata"]["name"]
        environment = yaml.safe_load(manifest["spec"]["runtimeEnvYAML"])["env_vars"]
        if ENV_STAGE in environment:
            self._submit_stage(manifest, environment[ENV_STAGE])
            return
        config = AttemptConfig.from_json(json.loads(environment[ENV_ATTEMPT]))
        cluster = world.clusters.get(manifest["spec"]["clusterSelector"]["ray.io/cluster"])
        job = FakeRayJob(name, world.uid("job"), config.attempt, cluster.head_uid if cluster else "")
        world.ray_jobs[name] = job
        if cluster is not None:
            job.duplicate = not world.submit(config, cluster.head_uid)

    def _submit_stage(self, manifest: dict[str, Any], config: str) -> None:
        world, name = self.world, manifest["metadata"]["name"]
        cluster = world.clusters.get(manifest["spec"]["clusterSelector"]["ray.io/cluster"])
        job = FakeRayJob(name, world.uid("job"), 0, cluster.head_uid if cluster else "", stage=names.stage_run(name))
        world.ray_jobs[name] = job
        if cluster is not None:
            job.duplicate = not world.stages.submit(config, cluster.head_uid)

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> None:
        after = self.world.effect(f"delete {kind} {name}")
        objects: dict[str, Any] = self.world.clusters if kind == "RayCluster" else self.world.ray_jobs
        if name in objects and objects[name].uid == uid:
            objects[name].deleting = True
        after()

    async def claim_exists(self, namespace: str, name: str) -> bool:
        return self.world.claim

    async def read_token(self, namespace: str, secret_name: str) -> str | None:
        return self.world.tokens.get(secret_name)

    async def save_revision(self, job: PPOJob, name: str, spec: dict[str, Any]) -> None:
        self.world.revisions[name] = spec

    async def load_revision(self, namespace: str, name: str) -> dict[str, Any] | None:
        return self.world.revisions.get(name)

    async def emit(self, job: PPOJob, event: Event) -> None:
        self.world.events.append(event)


class FakeMonitorPort:
    """`ports.Monitor` over a world."""

    def __init__(self, world: World) -> None:
        self.world = world

    def _reach(self) -> None:
        if not self.world.reachable:
            raise MonitorUnavailable("connection refused")

    async def state(self, endpoint: Endpoint) -> State:
        self._reach()
        world = self.world
        head = next((item for item in world.clusters.values() if address(item) == endpoint.host), None)
        if head is None:
            raise MonitorUnavailable("no route to host")
        training = any(item.running and item.head_uid == head.head_uid for item in world.attempts.values())
        held = training or world.stages.held(head.head_uid)
        return State(
            job_uid=UID,
            pod_uid="pod",
            lock=LockState.HELD if held else LockState.FREE,
            attempts=tuple(self._attempt(number, item) for number, item in world.attempts.items()),
            checkpoints=tuple(
                CheckpointState(
                    ref=ref,
                    problem=world.problem(ref),
                    saving=False,
                    size_bytes=1,
                    world_size=None if world.checkpoints[ref] == NO_MANIFEST else 1,
                )
                for ref in world.checkpoints
            ),
            confirmed=tuple(world.confirmed),
            free_bytes=world.free_bytes,
            stages=world.stages.states(),
        )

    def _attempt(self, number: int, item: Attempt) -> AttemptState:
        return AttemptState(
            attempt=number,
            rows=len(item.rows),
            last_step=item.rows[-1].step if item.rows else None,
            last_heartbeat_age_seconds=0.0,
            command=item.command,
            claimed_by=item.claimed_by,
            ack=item.ack,
            outcome=item.outcome,
            dataset_digest=self.world.digests.get(number),
            steps=sum(row.kind is RowKind.STEP for row in item.rows),
            step_seconds=sum(row.values.get("stepSeconds", 0.0) for row in item.rows),
        )

    async def steps(
        self, endpoint: Endpoint, attempt: int, after: int, *, metrics: Sequence[str], wait_seconds: float = 0.0
    ) -> Steps:
        self._reach()
        rows = tuple(self.world.attempts[attempt].rows[after:]) if attempt in self.world.attempts else ()
        return Steps(job_uid=UID, pod_uid="pod", attempt=attempt, after=after, rows=rows)

    async def put_command(self, endpoint: Endpoint, attempt: int, command: Command) -> Command:
        self._reach()
        after = self.world.effect(f"command {command.kind.value} {attempt}")
        item = self.world.attempts.get(attempt)
        if item is None:
            raise MonitorUnavailable("no such attempt yet")
        if item.outcome is not None:
            raise MonitorRefused("the attempt has ended")
        item.command = item.command or command
        after()
        return item.command

    async def revoke(self, endpoint: Endpoint, attempt: int) -> Claimant:
        self._reach()
        after = self.world.effect(f"revoke {attempt}")
        item = self.world.attempts[attempt]
        item.claimed_by = item.claimed_by or Claimant.MONITOR
        after()
        return item.claimed_by

    async def put_confirmed(self, endpoint: Endpoint, checkpoints: Sequence[CheckpointRef]) -> None:
        self._reach()
        after = self.world.effect("confirm")
        self.world.confirmed = list(checkpoints)
        after()

    async def delete_checkpoints(self, endpoint: Endpoint, checkpoints: Sequence[CheckpointRef]) -> Deletion:
        """Refuses what the real one does first of all."""
        self._reach()
        world = self.world
        after = world.effect("delete checkpoints")
        whole = [ref for ref, problem in world.checkpoints.items() if problem is None]
        kept = {
            *[ref for ref in world.confirmed if ref in whole][-2:],
            *sorted(whole, key=lambda ref: (ref.attempt, ref.step))[-1:],
        }
        gone = tuple(ref for ref in checkpoints if ref in world.checkpoints and ref not in kept)
        for ref in gone:
            del world.checkpoints[ref]
        world.deleted += gone
        after()
        refused = tuple(Refusal(ref=ref, reason="it is needed") for ref in checkpoints if ref in kept)
        return Deletion(deleted=gone, refused=refused)
