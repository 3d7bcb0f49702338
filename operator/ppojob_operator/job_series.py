"""The series of each job that its status tells: made anew at each scrape, so that no restart of the operator loses a
count and nothing is left of a job that is gone.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from ppojob_contract import metrics
from ppojob_contract.metrics import FROM_STATUS, Metric, MetricType
from ppojob_operator.api.v1alpha1.spec import PPOJobSpec
from ppojob_operator.api.v1alpha1.status import Phase, PPOJobStatus, Verdict
from ppojob_operator.domain.goodput import held_seconds
from ppojob_operator.domain.guardrails.cleanness import window
from ppojob_operator.domain.pause import paused
from ppojob_operator.ports import Key

VERDICT_VALUES: Final = {Verdict.HEALTHY: 0, Verdict.BREACHED: 1, Verdict.INCONCLUSIVE: 2, Verdict.WAITING: 3}

Sample = tuple[Metric, tuple[str, ...], float]


@dataclass(slots=True)
class Told:
    """What is exported of one job."""

    key: Key
    seen: bool = False
    """Whether its status was, and not only that passes failed."""
    status: PPOJobStatus = field(default_factory=PPOJobStatus)
    spec: PPOJobSpec | None = None
    errors: Counter[str] = field(default_factory=Counter)
    """Failed passes by error."""
    breaches: Counter[str] = field(default_factory=Counter)
    """By guardrail; each is there with 0 before its first breach, so that Prometheus sees the count rise."""
    rollback_since: datetime | None = None
    """When the rollback that has not reached a first step yet was decided."""


class JobSeries(Collector):
    """All of `FROM_STATUS` in `ppojob_contract.metrics`, and `JOBS`. A new job of a name takes the old one's place."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.jobs: dict[tuple[str, str], Told] = {}
        self._now = now

    def of(self, key: Key) -> Told:
        """What is told of that job, from nothing where it was not known or another job had the name."""
        place = (key.namespace, key.name)
        known = self.jobs.get(place)
        if known is None or known.key != key:
            known = self.jobs[place] = Told(key)
        return known

    def forget(self, key: Key) -> None:
        """Another job of that name keeps its series."""
        place = (key.namespace, key.name)
        if place in self.jobs and self.jobs[place].key == key:
            del self.jobs[place]

    def describe(self) -> Iterator[Family]:
        """Nothing: keeps the registry from collecting when this is registered."""
        return iter(())

    def collect(self) -> Iterator[Family]:
        families = {metric.name: _family(metric) for metric in FROM_STATUS}
        now = self._now()
        for told in self.jobs.values():
            for metric, labels, value in _samples(told, now):
                families[metric.name].add_metric([told.key.namespace, told.key.name, *labels], value)
        yield from families.values()
        yield self._phases()

    def _phases(self) -> Family:
        tally = Counter(told.status.phase for told in self.jobs.values() if told.seen)
        family = _family(metrics.JOBS)
        for phase in Phase:
            family.add_metric([phase.value], tally[phase])
        return family


def _family(metric: Metric) -> CounterMetricFamily | GaugeMetricFamily:
    if metric.type is MetricType.COUNTER:
        return CounterMetricFamily(metric.name.removesuffix("_total"), metric.help, labels=metric.labels)
    return GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)


def _samples(told: Told, now: datetime) -> Iterator[Sample]:
    for error, count in told.errors.items():
        yield metrics.RECONCILE_ERRORS, (error,), count
    for guardrail, count in told.breaches.items():
        yield metrics.BREACHES, (guardrail,), count
    if told.seen:
        yield from _of_status(told.status, now)
    if told.spec is not None:
        yield metrics.TARGET_STEPS, (), told.spec.training.total_steps
        yield metrics.CHECKPOINT_INTERVAL, (), told.spec.checkpoints.every_steps
        yield metrics.CONFIRMATION_WINDOW, (), window(told.spec)


def _of_status(status: PPOJobStatus, now: datetime) -> Iterator[Sample]:
    yield metrics.PHASE, (status.phase.value,), 1
    for condition in status.conditions:
        yield metrics.CONDITION, (condition.type.value, condition.status.value, condition.reason), 1
    if status.paused_by is not None and paused(status):
        yield metrics.PAUSED, (status.paused_by.reason,), 1
    yield metrics.JOB_ROLLBACKS, (), status.rollbacks
    yield metrics.JOB_RESTARTS, (), status.restarts
    yield metrics.STEPS, (), status.goodput.steps
    yield metrics.USEFUL_STEPS, (), status.goodput.useful_steps
    yield metrics.TRAINING_SECONDS, (), status.goodput.training_seconds
    yield metrics.HELD_SECONDS, (), held_seconds(status.goodput, now)
    if status.progress is not None and status.progress.estimated_completion is not None:
        yield metrics.ESTIMATED_COMPLETION, (), status.progress.estimated_completion.timestamp()
    for state, count in Counter(item.phase.value for item in status.checkpoints.items).items():
        yield metrics.CHECKPOINTS, (state,), count
    for guardrail in status.guardrails:
        labels = (guardrail.name, guardrail.action.value, str(guardrail.dry_run).lower())
        yield metrics.VERDICT, labels, VERDICT_VALUES[guardrail.verdict]
