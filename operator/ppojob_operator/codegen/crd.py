"""The CustomResourceDefinition of PPOJob."""

from typing import Any

from ppojob_operator.api.v1alpha1.base import rules
from ppojob_operator.api.v1alpha1.immutable import ROOT_RULES
from ppojob_operator.api.v1alpha1.resource import GROUP, KIND, PLURAL, VERSION
from ppojob_operator.api.v1alpha1.spec import PPOJobSpec
from ppojob_operator.api.v1alpha1.status import PPOJobStatus
from ppojob_operator.codegen.schema import Schema, structural

SIZE_LIMIT_BYTES = 200_000
"""Client-side apply copies the whole object into an annotation, which may have 256 KiB with all others."""

_WIDE = 1


def _column(name: str, kind: str, path: str, description: str, priority: int = 0) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return column | ({"priority": priority} if priority else {})


COLUMNS = (
    _column("Phase", "string", ".status.phase", "What the job is doing"),
    _column("Stage", "string", ".status.stage", "Part of the job that runs, or ran last"),
    _column("Step", "integer", ".status.progress.step", "Last finished training step"),
    _column("Reward", "string", ".status.metrics.rewardMean", "Mean reward of the last step"),
    _column("KL", "string", ".status.metrics.kl", "KL of the policy to the reference"),
    _column("Attempt", "integer", ".status.attempt.number", "Attempt that runs or ran last"),
    _column("Rollbacks", "integer", ".status.rollbacks", "Rollbacks so far"),
    _column("Age", "date", ".metadata.creationTimestamp", "Since creation"),
    _column("Checkpoint", "integer", ".status.checkpoints.confirmed.step", "Newest confirmed checkpoint's step", _WIDE),
    _column("Tokens/s", "string", ".status.metrics.tokensPerSecond", "Tokens a second, all devices", _WIDE),
    _column("Cluster", "integer", ".status.clusterNumber", "Number of the Ray cluster", _WIDE),
    _column("Message", "string", ".status.message", "What is going on, or why nothing is", _WIDE),
)


def custom_resource_definition() -> dict[str, Any]:
    """Raises codegen.schema.UnsupportedSchema."""
    names = {
        "kind": KIND,
        "listKind": f"{KIND}List",
        "plural": PLURAL,
        "singular": KIND.lower(),
        "shortNames": ["ppo"],
        "categories": ["all"],
    }
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": list(COLUMNS),
        "schema": {"openAPIV3Schema": root_schema()},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def root_schema() -> Schema:
    """Of the whole object."""
    return {
        "type": "object",
        "description": "A training run of a language model with reinforcement learning: PPO, GRPO and their kin, by "
        "verl on a Ray cluster.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": structural(PPOJobSpec),
            "status": structural(PPOJobStatus, status=True),
        },
        **rules(*ROOT_RULES),
    }
