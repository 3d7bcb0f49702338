"""The job's series for Prometheus, made anew at each scrape from the journals: a restart loses no count."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from ppojob_contract import metrics as declared
from ppojob_contract.figures import FIGURES
from ppojob_contract.journal import REWARD_TERM, Row
from ppojob_contract.metrics import Metric, MetricType
from ppojob_contract.protocol import CheckpointState
from ppojob_trainer.monitor.job import Job
from ppojob_trainer.monitor.journals import DURATION_BOUNDS, Totals
from ppojob_trainer.monitor.stages import newest

_EXPORTED = {name for metric in declared.FROM_FIGURES for name, *_ in metric.figures}
_OWN_KEYS = frozenset(FIGURES[name].verl_key for name in _EXPORTED if name in FIGURES)
"""verl's keys that have a series of their own name; all others are in `ppojob_verl`."""
_STAGE = "timing_s/"


@dataclass(slots=True)
class _All:
    """Over all attempts; the gauges are of the newest attempt that has a step."""

    attempt: int = 0
    tokens: float = 0.0
    seconds: float = 0.0
    steps: list[int] = field(default_factory=lambda: [0] * (len(DURATION_BOUNDS) + 1))
    last: Row | None = None
    validation: Row | None = None
    save_seconds: float | None = None


class JobCollector(Collector):
    """Every trainer metric of `ppojob_contract.metrics` that there is a value for."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._labels = [job.identity.namespace, job.identity.name]

    def describe(self) -> Iterator[Family]:
        """Nothing: keeps the registry from collecting when this is registered."""
        return iter(())

    def collect(self) -> Iterator[Family]:
        everything = self._fold()
        if everything.attempt:
            yield self._gauge(declared.ATTEMPT, [([], everything.attempt)])
        yield self._counter(declared.TOKENS, everything.tokens)
        yield self._durations(everything)
        yield from self._checkpoints(everything)
        if everything.last is not None:
            yield from self._step(everything.last, everything.validation)
        yield self._gauge(declared.STAGE_FIGURE, self._stages())

    def _fold(self) -> _All:
        result = _All()
        for attempt in self._job.layout.attempts():
            totals: Totals = self._job.journal(attempt).totals
            result.attempt = attempt
            result.tokens += totals.tokens
            result.seconds += totals.seconds
            result.steps = [a + b for a, b in zip(result.steps, totals.durations, strict=True)]
            result.last = totals.last or result.last
            result.validation = totals.validation or result.validation
            result.save_seconds = totals.save_seconds if totals.save_seconds is not None else result.save_seconds
        return result

    def _step(self, row: Row, validation: Row | None) -> Iterator[Family]:
        yield self._gauge(declared.STEP, [([], row.step)])
        yield self._gauge(declared.LAST_STEP_TIME, [([], row.time)])
        stages = {key.removeprefix(_STAGE): value for key, value in row.verl.items() if key.startswith(_STAGE)}
        yield self._gauge(declared.STAGE_DURATION, _kept(declared.STAGE_DURATION, stages))
        figures = dict(validation.figures) | dict(row.figures) if validation else row.figures
        for metric in declared.FROM_FIGURES:
            samples = [(list(labels), figures[name]) for name, *labels in metric.figures if name in figures]
            if samples:
                yield self._gauge(metric, samples)
        terms = {key.removeprefix(REWARD_TERM): v for key, v in row.verl.items() if key.startswith(REWARD_TERM)}
        if terms:
            yield self._gauge(declared.REWARD_TERM_MEAN, _kept(declared.REWARD_TERM_MEAN, terms))
        rest = {k: v for k, v in row.verl.items() if k not in _OWN_KEYS and not k.startswith((_STAGE, REWARD_TERM))}
        yield self._gauge(declared.VERL, _kept(declared.VERL, rest))
        left_out = sum(
            max(0, len(values) - metric.combinations)
            for metric, values in ((declared.STAGE_DURATION, stages), (declared.VERL, rest))
        )
        yield self._gauge(declared.LEFT_OUT, [([], left_out)])

    def _checkpoints(self, everything: _All) -> Iterator[Family]:
        found = self._job.checkpoints(self._job.lock())
        newest = _newest_checkpoints(found)
        confirmed = self._job.confirmed()
        if confirmed:
            newest["Confirmed"] = confirmed[-1].step
        yield self._gauge(declared.CHECKPOINT_STEP, [([state], step) for state, step in newest.items()])
        yield self._gauge(declared.CHECKPOINT_BYTES, [([], sum(item.size_bytes for item in found))])
        if everything.save_seconds is not None:
            yield self._gauge(declared.CHECKPOINT_SAVE, [([], everything.save_seconds)])

    def _stages(self) -> list[tuple[list[str], float]]:
        """Each stage's figures, as `ppojob_contract.stages.figures_of` bounds them."""
        found = newest(self._job.stages())
        return [([stage.value, key], value) for stage, state in found.items() for key, value in state.figures.items()]

    def _gauge(self, metric: Metric, samples: list[tuple[list[str], float]]) -> Family:
        assert metric.type is MetricType.GAUGE
        family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
        for labels, value in samples:
            family.add_metric([*self._labels, *labels], value)
        return family

    def _counter(self, metric: Metric, value: float) -> Family:
        family = CounterMetricFamily(metric.name.removesuffix("_total"), metric.help, labels=metric.labels)
        family.add_metric(self._labels, value)
        return family

    def _durations(self, everything: _All) -> Family:
        metric = declared.STEP_DURATION
        bounds = [str(bound) for bound in DURATION_BOUNDS] + ["+Inf"]
        cumulative = list(zip(bounds, map(float, accumulate(everything.steps)), strict=True))
        family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        family.add_metric(self._labels, cumulative, everything.seconds if math.isfinite(everything.seconds) else 0.0)
        return family


def _kept(metric: Metric, values: Mapping[str, float]) -> list[tuple[list[str], float]]:
    """No more series than declared, and the same ones at every step: names come from user code too."""
    return [([name], values[name]) for name in sorted(values)[: metric.combinations]]


def _newest_checkpoints(found: tuple[CheckpointState, ...]) -> dict[str, int]:
    """Step of the newest checkpoint that is complete, being saved, or unusable; later attempts come later."""
    result = {}
    for item in found:
        state = "Complete" if item.complete else "Saving" if item.saving else "Unusable"
        result[state] = item.ref.step
    return result
