"""Checkpoints that could not be kept as the spec says."""

import math
from collections.abc import Iterator

from ppojob_contract.figures import FIGURES
from ppojob_operator.api.v1alpha1.checkpoints import ResumeFrom
from ppojob_operator.api.v1alpha1.spec import PPOJobSpec
from ppojob_operator.domain.guardrails.guards import is_validation_metric
from ppojob_operator.domain.observation import Problem

_METRIC = "spec.checkpoints.keepBest.metric"


def checkpoint_problems(spec: PPOJobSpec) -> Iterator[Problem]:
    """Of `spec.checkpoints`."""
    yield from _resume_from(spec.checkpoints.resume_from)
    best = spec.checkpoints.keep_best
    if best is None:
        return
    if not is_validation_metric(best.metric):
        known = ", ".join(name for name in FIGURES if is_validation_metric(name))
        message = f"must be a validation figure ({known}, or a key of verl's that begins with val-): figures of a step "
        yield Problem(field=_METRIC, message=message + "are too noisy to choose by")
    elif spec.training.validate_every_steps == 0:
        message = "can never exist in this configuration: nothing is validated; set spec.training.validateEverySteps"
        yield Problem(field=_METRIC, message=message)


def _resume_from(wanted: ResumeFrom | None) -> Iterator[Problem]:
    """As the API server judges it."""
    if wanted is not None and (wanted.job is None) == (wanted.path is None):
        yield Problem(field="spec.checkpoints.resumeFrom", message="set exactly one of job and path")
    if wanted is not None and wanted.step is not None and wanted.job is None:
        yield Problem(field="spec.checkpoints.resumeFrom.step", message="goes with job; a path names its step")


def checkpoint_warnings(spec: PPOJobSpec) -> Iterator[Problem]:
    """What is accepted and probably not meant."""
    every, validate = spec.checkpoints.every_steps, spec.training.validate_every_steps
    if spec.checkpoints.keep_best is not None and validate and every % validate:
        both = math.lcm(every, validate)
        yield Problem(
            field="spec.checkpoints.keepBest",
            message=f"compares the checkpoints of every {both}th step only: saved every {every} steps, validated every "
            f"{validate}",
        )
