"""Whether a spec can be carried out, and if not, which field is wrong and what to do.

The API server has judged most of it by the CRD's schema and CEL; this says it again for a spec that came another way,
and adds what no schema can: figures that can never exist, verl's arithmetic, keys that are not the user's.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from ppojob_operator.api.v1alpha1.resource import PPOJob
from ppojob_operator.api.v1alpha1.spec import Device, PPOJobSpec
from ppojob_operator.domain.acceptance_checkpoints import checkpoint_problems, checkpoint_warnings
from ppojob_operator.domain.acceptance_guardrails import guardrail_problems, guardrail_warnings
from ppojob_operator.domain.acceptance_pipeline import pipeline_problems
from ppojob_operator.domain.acceptance_pods import pod_problems
from ppojob_operator.domain.acceptance_training import training_problems
from ppojob_operator.domain.job import AcceptedJob
from ppojob_operator.domain.observation import Problem

IMAGELESS = frozenset({Device.ASCEND_NPU})
"""Devices for which no trainer image is made."""

_NAMING_KEYS = ("name", "key", "parameter")


def accept(
    job: PPOJob, *, imageless: Collection[Device] = IMAGELESS, prometheus: bool = False
) -> tuple[AcceptedJob | None, tuple[Problem, ...], tuple[Problem, ...]]:
    """The accepted job, or None; then problems (empty where it is accepted) and warnings. Never raises.

    `imageless`: devices for which the operator has no trainer image, so that the spec must name one. `prometheus`:
    whether the operator has one to ask.
    """
    spec, problems, warnings = judge(job.raw_spec, imageless=imageless, prometheus=prometheus)
    if spec is None or problems:
        return None, problems, ()
    accepted = AcceptedJob(namespace=job.namespace, name=job.name, uid=job.uid, generation=job.generation, spec=spec)
    return accepted, (), warnings


def judge(
    raw_spec: dict[str, Any], *, imageless: Collection[Device] = IMAGELESS, prometheus: bool = False
) -> tuple[PPOJobSpec | None, tuple[Problem, ...], tuple[Problem, ...]]:
    """The parsed spec (None where it has not the form of one), problems and warnings."""
    try:
        spec = PPOJobSpec.model_validate(raw_spec)
    except ValidationError as error:
        return None, tuple(_schema_problems(error, raw_spec)), ()
    problems = (
        *_duplicates(spec),
        *training_problems(spec),
        *checkpoint_problems(spec),
        *guardrail_problems(spec, prometheus=prometheus),
        *pod_problems(spec, imageless),
        *pipeline_problems(spec, lambda raw: judge(raw, imageless=imageless, prometheus=prometheus)[1]),
    )
    return spec, problems, (*checkpoint_warnings(spec), *guardrail_warnings(spec))


def _schema_problems(error: ValidationError, raw_spec: Any) -> Iterator[Problem]:
    seen = set()
    for item in error.errors(include_url=False, include_context=False):
        field = _path(item["loc"], raw_spec)
        if field in seen:
            continue
        seen.add(field)
        yield Problem(field=field, message=_message(item["type"], item["msg"], field))


def _message(kind: str, message: str, field: str) -> str:
    if field.startswith("spec.trainer.overrides[") and field.endswith(".value"):
        return "must be a scalar of at most 4096 characters: text, a number, true, false or null"
    match kind:
        case "missing":
            return "is required"
        case "extra_forbidden":
            return "is not a field of a PPOJob"
        case _:
            return message[:1].lower() + message[1:]


def _path(location: Sequence[int | str], raw: Any) -> str:
    """As a user would write it: items of lists by their name where they have one."""
    path, node = "spec", raw
    for part in location:
        if isinstance(part, int) and isinstance(node, list) and part < len(node):
            node = node[part]
            path += f"[{_item_name(node, part)}]"
        elif isinstance(node, Mapping):
            path += f".{part}"
            node = node.get(part)
        else:
            break  # a member of a union, which no user has heard of
    return path


def _item_name(item: Any, index: int) -> str:
    named = (item.get(key) for key in _NAMING_KEYS) if isinstance(item, Mapping) else iter(())
    return next((name for name in named if isinstance(name, str) and name), str(index))


def _duplicates(spec: PPOJobSpec) -> Iterator[Problem]:
    """The API server refuses these as duplicate keys of list maps."""
    lists: dict[str, list[str]] = {
        "spec.reward.terms": [term.name for term in spec.reward.terms],
        "spec.data.prepare.sources": [item.name for item in spec.data.prepare.sources] if spec.data.prepare else [],
        "spec.evaluation.prompts": [item.name for item in spec.evaluation.prompts] if spec.evaluation else [],
        "spec.guardrails": [guardrail.name for guardrail in spec.guardrails],
        "spec.rollback.adjust": [item.parameter.value for item in spec.rollback.adjust],
        "spec.trainer.env": [item.name for item in spec.trainer.env],
        "spec.trainer.overrides": [item.key for item in spec.trainer.overrides],
        "spec.trainer.imagePullSecrets": [item.name for item in spec.trainer.image_pull_secrets],
    }
    for field, names in lists.items():
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield Problem(field=f"{field}[{name}]", message="is there more than once")
