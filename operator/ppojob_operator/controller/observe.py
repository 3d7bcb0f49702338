"""One look at one job, through the ports only.

Journal rows are kept in memory and only the new ones are fetched: they are append-only, and a restarted operator reads
them again from the first, so that nothing per step has to be stored anywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import ValidationError

from ppojob_contract.figures import ALWAYS_READ
from ppojob_contract.protocol import State, StepRow
from ppojob_operator.api.v1alpha1.resource import PPOJob
from ppojob_operator.api.v1alpha1.spec import Device, PPOJobSpec
from ppojob_operator.api.v1alpha1.stage_status import StageName
from ppojob_operator.api.v1alpha1.status import IntentKind
from ppojob_operator.controller.asking import AskedQueries, ask
from ppojob_operator.domain.acceptance import accept
from ppojob_operator.domain.guardrails.guards import guards_of
from ppojob_operator.domain.guardrails.queries import Queries
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.lineage import lineage
from ppojob_operator.domain.observation import MonitorView, Observation, Problem, RayClusterView, Reach
from ppojob_operator.domain.pipeline.recorded import recorded
from ppojob_operator.domain.pipeline.trial import looks_at_trial
from ppojob_operator.domain.source import needs_source
from ppojob_operator.errors import MonitorUnavailable
from ppojob_operator.ports import Clock, Cluster, Endpoint, Key, Metrics, Monitor
from ppojob_operator.render import names

Acceptance = tuple[AcceptedJob | None, tuple[Problem, ...], tuple[Problem, ...]]
"""The spec that governs, what is wrong with the current one, and warnings."""


@dataclass(frozen=True, slots=True)
class WatchPoint:
    """How far an attempt's journal was read."""

    endpoint: Endpoint
    attempt: int
    after: int


@dataclass(slots=True)
class Memory:
    """What a worker remembers between two looks; losing it costs reading, never a decision."""

    metrics: tuple[str, ...] = ()
    rows: dict[int, list[StepRow]] = field(default_factory=dict)
    reached: datetime | None = None
    """When the monitor answered last; before the first answer, when it was first asked."""
    acceptance: tuple[int, Acceptance] | None = None
    """By generation."""
    asked: AskedQueries = field(default_factory=AskedQueries)
    watch: WatchPoint | None = None
    """Where the next row is expected; None while none can come."""


@dataclass(frozen=True, slots=True)
class Observer:
    """Reads a job's world."""

    cluster: Cluster
    monitor: Monitor
    clock: Clock
    imageless: frozenset[Device] = frozenset()
    """Devices for which this installation has no trainer image."""
    metrics: Metrics | None = None

    async def observe(self, job: PPOJob, memory: Memory) -> Observation:
        """Raises `ClusterUnavailable`; a monitor that does not answer is part of what is observed."""
        key = Key.of(job)
        accepted, problems, warnings = await self._accept(job, memory)
        clusters = await self.cluster.list_clusters(key)
        jobs = await self.cluster.list_ray_jobs(key)
        monitor = await self._look_inside(job, accepted, key, _current(job, clusters), memory)
        bound = None
        if accepted is not None and job.status.cluster_number == 0:
            bound = await self.cluster.claim_exists(job.namespace, accepted.spec.storage.claim_name)
        other = needs_source(job.status, accepted) if accepted is not None else None
        source = await self.cluster.find_job(job.namespace, other) if other else None
        return Observation(
            now=self.clock(),
            job=job,
            accepted=accepted,
            problems=problems,
            warnings=warnings,
            clusters=tuple(clusters),
            jobs=tuple(jobs),
            monitor=monitor,
            source_job=source,
            baseline_job=await self._baseline(job, accepted),
            trial_job=await self._trial(job, accepted),
            queries=await self._ask(accepted, memory),
            storage_bound=bound,
            leftover_pods=tuple(await self.cluster.leftover_pods(key)),
        )

    async def _baseline(self, job: PPOJob, accepted: AcceptedJob | None) -> PPOJob | None:
        evaluation = accepted.spec.evaluation if accepted is not None else None
        ending = job.status.intent is not None and job.status.intent.kind is IntentKind.COMPLETE
        if evaluation is None or evaluation.baseline.job is None or not ending:
            return None
        return await self.cluster.find_job(job.namespace, evaluation.baseline.job)

    async def _trial(self, job: PPOJob, accepted: AcceptedJob | None) -> PPOJob | None:
        if accepted is None or not looks_at_trial(job.status, accepted):
            return None
        entry = recorded(job.status, StageName.TRIAL)
        name = names.trial_name(names.base(job.name, job.uid), entry.run if entry is not None else 1)
        return await self.cluster.find_job(job.namespace, name)

    async def endpoint(self, job: PPOJob) -> Endpoint | None:
        """The job's monitor with the right to change something; None where there is no head pod."""
        key = Key.of(job)
        head = _head_address(_current(job, await self.cluster.list_clusters(key)))
        if head is None:
            return None
        token = await self.cluster.read_token(job.namespace, names.secret_name(names.base(job.name, job.uid)))
        return Endpoint(host=head, key=key, token=token)

    async def _accept(self, job: PPOJob, memory: Memory) -> Acceptance:
        """Judged once for each generation: parsing and hashing a spec costs more than the rest of a quiet pass."""
        if memory.acceptance is None or memory.acceptance[0] != job.generation:
            accepted, problems, warnings = accept(job, imageless=self.imageless, prometheus=self.metrics is not None)
            if accepted is None:
                accepted, lost = await self._governing(job)
                problems = (*problems, *lost)
            memory.acceptance = (job.generation, (accepted, problems, warnings))
        return memory.acceptance[1]

    async def _governing(self, job: PPOJob) -> tuple[AcceptedJob | None, tuple[Problem, ...]]:
        """The last accepted spec, where the current one is refused; what is wrong with it where another version of the
        operator accepted it.
        """
        name = job.status.accepted_revision
        raw = await self.cluster.load_revision(job.namespace, name) if name else None
        if raw is None:
            return None, ()
        try:
            spec = PPOJobSpec.model_validate(raw)
        except ValidationError as error:
            told = error.errors(include_url=False, include_context=False)[0]
            where = ".".join(map(str, ("spec", *told["loc"])))
            message = f"cannot be read by this operator ({where}: {told['msg']}), so nothing is done: mend the spec"
            return None, (Problem(field=f"the last accepted spec, ControllerRevision {name},", message=message),)
        # Suspending must work whatever else is wrong with an edit.
        spec = spec.model_copy(update={"suspend": job.raw_spec.get("suspend") is True})
        accepted = AcceptedJob(
            namespace=job.namespace, name=job.name, uid=job.uid, generation=job.generation, spec=spec
        )
        return accepted, ()

    async def _ask(self, accepted: AcceptedJob | None, memory: Memory) -> Queries | None:
        if self.metrics is None or accepted is None:
            return None
        return await ask(self.metrics, queries_of(accepted.spec), memory.rows, memory.asked, self.clock())

    async def _look_inside(
        self, job: PPOJob, accepted: AcceptedJob | None, key: Key, current: RayClusterView | None, memory: Memory
    ) -> MonitorView:
        memory.watch = None
        host = _head_address(current)
        if host is None or accepted is None:
            return self._unreached(memory, Reach.NO_POD, "there is no running head pod")
        try:
            endpoint = Endpoint(host=host, key=key)
            state = await self.monitor.state(endpoint)
            await self._read_rows(endpoint, job, state, metrics_of(accepted.spec), memory)
        except MonitorUnavailable as error:
            return self._unreached(memory, Reach.UNREACHABLE, str(error))
        memory.reached = self.clock()
        memory.watch = _watch_point(endpoint, job, state, memory)
        return MonitorView(reach=Reach.OK, state=state, rows=_frozen(memory))

    def _unreached(self, memory: Memory, reach: Reach, message: str) -> MonitorView:
        now = self.clock()
        memory.reached = memory.reached or now
        silent = (now - memory.reached).total_seconds()
        return MonitorView(reach=reach, rows=_frozen(memory), message=message, silent_seconds=silent)

    async def _read_rows(
        self, endpoint: Endpoint, job: PPOJob, state: State, metrics: tuple[str, ...], memory: Memory
    ) -> None:
        if metrics != memory.metrics:
            memory.metrics, memory.rows = metrics, {}
        wanted = {segment.attempt for segment in lineage(job.status)}
        for number in set(memory.rows) - wanted:
            del memory.rows[number]
        for number in sorted(wanted):
            known = memory.rows.setdefault(number, [])
            attempt = state.attempt(number)
            while attempt is not None and len(known) < attempt.rows:
                steps = await self.monitor.steps(endpoint, number, len(known), metrics=metrics)
                if not steps.rows:
                    break
                known.extend(steps.rows)


def _watch_point(endpoint: Endpoint, job: PPOJob, state: State, memory: Memory) -> WatchPoint | None:
    attempt = job.status.attempt
    on_disk = state.attempt(attempt.number) if attempt else None
    if attempt is None or attempt.ended is not None or (on_disk is not None and on_disk.outcome is not None):
        return None
    return WatchPoint(endpoint, attempt.number, len(memory.rows.get(attempt.number, ())))


def metrics_of(spec: PPOJobSpec) -> tuple[str, ...]:
    """Figures to ask the monitor for."""
    best = spec.checkpoints.keep_best
    guarded = (condition.metric for guard in guards_of(spec) for condition in guard.conditions if condition.metric)
    return tuple(sorted({*ALWAYS_READ, *guarded, *([best.metric] if best else [])}))


def queries_of(spec: PPOJobSpec) -> tuple[str, ...]:
    """What to ask Prometheus for."""
    found = (condition.promql for guard in guards_of(spec) for condition in guard.conditions if condition.promql)
    return tuple(dict.fromkeys(found))


def _current(job: PPOJob, clusters: Sequence[RayClusterView]) -> RayClusterView | None:
    return next((item for item in clusters if item.number == job.status.cluster_number), None)


def _head_address(cluster: RayClusterView | None) -> str | None:
    return cluster.head.ip if cluster and cluster.head and not cluster.head.failed else None


def _frozen(memory: Memory) -> dict[int, tuple[StepRow, ...]]:
    return {number: tuple(rows) for number, rows in memory.rows.items()}
