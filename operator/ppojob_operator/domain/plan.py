"""One pass over a job, without effects: judgement, decision, and the status and events that record them."""

from dataclasses import dataclass

from ppojob_contract.mailbox import CheckpointRef
from ppojob_operator.api.v1alpha1.status import CheckpointPhase, PPOJobStatus
from ppojob_operator.domain.decide import decide
from ppojob_operator.domain.decisions import Decision
from ppojob_operator.domain.events import Event, events
from ppojob_operator.domain.guardrails.kept import Kept
from ppojob_operator.domain.judgement import Judgement, judge
from ppojob_operator.domain.observation import Observation
from ppojob_operator.domain.record import record
from ppojob_operator.domain.retention import deletable


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What follows from an observation. The status is written before the decision is acted on."""

    decision: Decision
    status: PPOJobStatus
    events: tuple[Event, ...]
    confirm: tuple[CheckpointRef, ...] | None
    """All Confirmed checkpoints, oldest first, where the claim's own list differs; None where it is right."""
    delete: tuple[CheckpointRef, ...] = ()
    """Checkpoints that nobody needs."""


def plan(observation: Observation, kept: Kept | None = None) -> Plan:
    """The same observation gives the same plan; `kept` of the plan before makes it quicker."""
    judgement = judge(observation, kept)
    decision = decide(observation, judgement)
    status = record(observation, judgement, decision)
    return Plan(
        decision=decision,
        status=status,
        events=events(observation, judgement, decision, status),
        confirm=_confirmed(observation, judgement),
        delete=deletable(observation, judgement, status),
    )


def _confirmed(observation: Observation, judgement: Judgement) -> tuple[CheckpointRef, ...] | None:
    """Without what is gone, and without what the run went back behind: it would have to prove itself anew."""
    state = observation.monitor.state
    if state is None or judgement.checkpoints is None:
        return None
    phases = {item.ref: item.phase for item in judgement.checkpoints}
    kept = {
        ref for ref in state.confirmed if phases.get(ref, CheckpointPhase.ABANDONED) is not CheckpointPhase.ABANDONED
    }
    right = tuple(sorted(kept | set(judgement.confirmed), key=lambda ref: (ref.step, ref.attempt)))
    return None if right == state.confirmed else right
