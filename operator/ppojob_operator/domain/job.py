"""A job whose spec was accepted: what rendering and deciding work on."""

from dataclasses import dataclass

from ppojob_operator.api.v1alpha1.spec import PPOJobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedJob:
    """Identity and the spec that governs (the last accepted one, which an invalid edit does not replace)."""

    namespace: str
    name: str
    uid: str
    generation: int
    spec: PPOJobSpec
