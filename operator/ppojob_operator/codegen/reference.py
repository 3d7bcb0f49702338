"""The reference pages, from the same sources as the code: the CRD's schema, verl's key table, figures and metrics."""

from collections.abc import Iterator, Sequence
from typing import Any

from ppojob_contract.figures import FIGURES, Need
from ppojob_contract.metrics import (
    FROM_FIGURES,
    FROM_STATUS,
    LEFT_OUT,
    OPERATOR_METRICS,
    STAGE_DURATION,
    TRAINER_METRICS,
    VERL,
    Metric,
)
from ppojob_operator.adapters.kubernetes.kinds import LEASE, LEASE_USES, USES
from ppojob_operator.codegen.schema import INT_OR_STRING, PRESERVE, Schema, children
from ppojob_operator.domain.verl_keys import KEYS

GENERATED = "<!-- Generated from the code: change the code, then run `make generate`. -->"

_NEEDS = {
    Need.REFERENCE: "a reference: `algorithm.kl.placement` other than None, or `algorithm.kl.monitor`",
    Need.CRITIC: "`algorithm.estimator: GAE`",
    Need.GROUPS: "`rollout.samplesPerPrompt` of 2 or more",
    Need.VALIDATION: "`training.validateEverySteps`",
    Need.DEVICE_MEMORY: "a device other than CPU",
}


_FIELDS_INTRODUCTION = (
    "`apiVersion: rlhf.dev/v1alpha1`, `kind: PPOJob`. **Bold** fields are required. `[]` is an item of a list, `{}` a "
    "value of a map. Of a running job, changed guardrails, rollback, restart limits, `checkpoints.confirmSteps` and "
    "`suspend` take effect at once; changed time-outs and `gracefulStopSeconds` with the next attempt; any other "
    "change stops the attempt gracefully, and the next one goes on from the newest complete checkpoint with it."
)
_FIGURES_INTRODUCTION = (
    "What a guardrail's `metric` can name. A name with a slash is one of verl's own keys (`critic/returns/mean`) and "
    "is looked up in what verl logs. Row N describes the weights after step N-1. A figure that the configuration can "
    "never produce is refused; one that a step lacks is no observation, never a breach."
)
_PERMISSIONS_INTRODUCTION = (
    "What the operator's service account may do, and the code (below `ppojob_operator`) that does it. The chart grants "
    "it with a ClusterRole, or with `watchNamespaces` with a Role in each of them; Leases always in the operator's own "
    "namespace only. Tests compare this table with the chart, and with what a real API server answers to `kubectl auth "
    "can-i --list`."
)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """In Markdown; a bar inside a cell is escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def fields_page(root: Schema) -> str:
    """`docs/fields.md`: every field of spec and status."""
    parts = [
        GENERATED,
        "# Fields of a PPOJob",
        _FIELDS_INTRODUCTION,
        "## Rules on the whole object",
        _rules(root),
    ]
    for part in ("spec", "status"):
        parts += _section(part, root["properties"][part])
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(name: str, node: Schema) -> Iterator[str]:
    yield f"## {name}"
    scalars = {key: child for key, child in node["properties"].items() if "properties" not in child}
    yield _field_table(name, {**node, "properties": scalars})
    if rules := _rules(node):
        yield rules
    for key, child in node["properties"].items():
        if "properties" in child:
            yield f"### {name}.{key}"
            yield child.get("description", "")
            yield _field_table(f"{name}.{key}", child)
            yield _rules(child)


def _field_table(path: str, node: Schema) -> str:
    header = ["field", "type", "default", "meaning"]
    with_verl = path.startswith("spec")
    rows = [row if with_verl else row[:-1] for row in _rows(node, path, path)]
    return table([*header, "verl key"] if with_verl else header, rows)


def _rows(node: Schema, path: str, top: str) -> Iterator[list[str]]:
    required = set(node.get("required", ()))
    for child_path, child in children(node, path):
        name = child_path.rsplit(".", 1)[-1]
        shown = f"`{child_path.removeprefix(top).removeprefix('.')}`"
        default = "" if "default" not in child or "properties" in child else f"`{_plain(child['default'])}`"
        meaning = " ".join(filter(None, [child.get("description", ""), *_messages(child)]))
        if not child_path.endswith(("[]", "{}")):
            yield [f"**{shown}**" if name in required else shown, _type(child), default, meaning, _verl(child_path)]
        yield from _rows(child, child_path, top)


def _messages(node: Schema) -> list[str]:
    rules = [*node.get("x-kubernetes-validations", ()), *node.get("items", {}).get("x-kubernetes-validations", ())]
    return [f"Rule: {rule['message']}." for rule in rules]


def _rules(node: Schema) -> str:
    return "\n".join(f"- {rule['message']}" for rule in node.get("x-kubernetes-validations", ()))


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else '""' if value == "" else str(value)


def _type(node: Schema) -> str:
    if node.get(INT_OR_STRING):
        return "quantity"
    if "enum" in node:
        return ", ".join(node["enum"])
    if node.get(PRESERVE):
        return "any" if "type" not in node else "object, kept as it is"
    match node["type"]:
        case "array":
            return _bounded("list", node, "minItems", "maxItems")
        case "object":
            return _bounded("map", node, "minProperties", "maxProperties") if "maxProperties" in node else "object"
        case "string" if node.get("format"):
            return str(node["format"])
        case "string":
            return _bounded("text", node, "minLength", "maxLength")
        case kind:
            return _bounded(kind, node, "minimum", "maximum")


def _bounded(kind: str, node: Schema, low: str, high: str) -> str:
    least, most = node.get(low), node.get(high)
    above = ">" if node.get("exclusiveMinimum") else "≥"
    below = "<" if node.get("exclusiveMaximum") else "≤"
    limits = [
        f"{above} {_number(least)}" if least is not None else "",
        f"{below} {_number(most)}" if most is not None else "",
    ]
    shown = ", ".join(filter(None, limits))
    return f"{kind}, {shown}" if shown else kind


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _verl(path: str) -> str:
    field = path.removeprefix("spec.").removesuffix("[]")
    return ", ".join(f"`{key.key}`" for key in KEYS if key.field == field)


def figures_page() -> str:
    """`docs/figures.md`: what `guardrails[].conditions[].metric` can name."""
    rows = [
        [
            f"`{figure.name}`",
            figure.help,
            ", ".join(_NEEDS[need] for need in figure.needs),
            f"`{figure.verl_key}`" if figure.verl_key else "computed by the trainer",
            ", ".join(f"`{series}`" for series in _series(figure.name)),
        ]
        for figure in FIGURES.values()
    ]
    return "\n\n".join(
        [
            GENERATED,
            "# Figures",
            _FIGURES_INTRODUCTION,
            table(["figure", "meaning", "needs", "source", "Prometheus"], rows),
        ]
    ) + "\n"  # fmt: skip


def _series(figure: str) -> Iterator[str]:
    for metric in FROM_FIGURES:
        for name, *values in metric.figures:
            if name == figure:
                own = metric.labels[len(metric.labels) - len(values) :]
                labels = ",".join(f'{label}="{value}"' for label, value in zip(own, values, strict=True))
                yield f"{metric.name}{{{labels}}}" if labels else metric.name


_TRAINER_INTRODUCTION = (
    "Labels `namespace` and `ppojob` say whose they are; an attempt is a value, not a label. Counters are made from "
    "the journals at each scrape: a restarted monitor goes on where it was. The series end with the pod."
)
_STATUS_INTRODUCTION = (
    "From the job's status: there before the first step and after the last pod, gone when the PPOJob is. A restarted "
    "operator goes on with the same counts (but for `ppojob_reconcile_errors_total`)."
)


def metrics_page() -> str:
    """`docs/metrics.md`: every Prometheus metric."""
    return "\n\n".join(
        [
            GENERATED,
            "# Prometheus metrics",
            "## Of a job (its monitor)",
            _TRAINER_INTRODUCTION,
            _metric_table(TRAINER_METRICS),
            "## Of a job (the operator)",
            _STATUS_INTRODUCTION,
            _metric_table(FROM_STATUS),
            "## Of the operator",
            "Of this process: counters begin at 0 when it starts.",
            _metric_table(OPERATOR_METRICS),
            "## How many series",
            _cardinality(),
        ]
    ) + "\n"  # fmt: skip


def _metric_table(metrics: Sequence[Metric]) -> str:
    rows = [
        [f"`{m.name}`", m.type.value, m.unit, ", ".join(f"`{x}`" for x in m.labels), str(m.series), m.help]
        for m in metrics
    ]
    return table(["metric", "type", "unit", "labels", "series at most", "meaning"], rows)


def _cardinality() -> str:
    trainer, status, operator = (
        sum(m.series for m in metrics) for metrics in (TRAINER_METRICS, FROM_STATUS, OPERATOR_METRICS)
    )
    return (
        f"A job has at most {trainer + status} series ({trainer} of its monitor, {status} of the operator), the "
        f"operator at most {operator} of its own, whatever the number of attempts, steps and pods. Figures that find "
        f"no room in `{VERL.name}` or `{STAGE_DURATION.name}` are counted in `{LEFT_OUT.name}` and stay in the journal."
    )


def permissions_page() -> str:
    """`docs/permissions.md`: every verb the operator may use, and where it does."""
    rows = [
        [f"`{resource}`", f"`{group}`" if group else "core", f"`{verb}`", f"`{used}`"]
        for (group, resource), uses in {**USES, (LEASE.group, LEASE.plural): LEASE_USES}.items()
        for verb, used in uses.items()
    ]
    parts = [GENERATED, "# Permissions of the operator", _PERMISSIONS_INTRODUCTION]
    return "\n\n".join([*parts, table(["resource", "group", "verb", "used by"], rows)]) + "\n"
