"""One pass over a job, without effects: judgement, decision, and the status and events that record them."""

from dataclasses import dataclass

from ppojob_contract.mailbox import CheckpointRef
from ppojob_operator.api.v1alpha1.status import PPOJobStatus
from ppojob_operator.domain.decide import decide
from ppojob_operator.domain.decisions import Decision
from ppojob_operator.domain.events import Event, events
from ppojob_operator.domain.judgement import judge
from ppojob_operator.domain.observation import Observation
from ppojob_operator.domain.record import record


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What follows from an observation. The status is written before the decision is acted on."""

    decision: Decision
    status: PPOJobStatus
    events: tuple[Event, ...]
    confirm: tuple[CheckpointRef, ...] | None
    """All Confirmed checkpoints, where the claim's own list lacks one; None where it has them."""


def plan(observation: Observation) -> Plan:
    """Pure: the same observation gives the same plan."""
    judgement = judge(observation)
    decision = decide(observation, judgement)
    status = record(observation, judgement, decision)
    state = observation.monitor.state
    missing = judgement.unwritten(state.confirmed) if state else ()
    return Plan(
        decision=decision,
        status=status,
        events=events(observation, judgement, decision, status),
        confirm=(*state.confirmed, *missing) if state and missing else None,
    )
