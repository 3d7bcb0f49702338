"""A restart that a person asks for while the attempt trains."""

from tests.support.builders import raw_spec, row
from tests.support.observations import CLUSTER, RAY_JOB, attempt, attempt_state, observation, reached

from ppojob_contract.mailbox import CheckpointRef
from ppojob_operator.api.v1alpha1.status import CheckpointPhase, PPOJobStatus, ResumePoint
from ppojob_operator.domain.checkpoints import JudgedCheckpoint
from ppojob_operator.domain.decisions import Begin
from ppojob_operator.domain.judgement import Judgement
from ppojob_operator.domain.supervise import supervise

SPEC = raw_spec(restart={"nonce": "1", "fromStep": 10})


def test_it_looks_at_the_checkpoints_on_the_claim():
    """The status may not have them yet."""
    accepted = observation(PPOJobStatus(), spec=SPEC).accepted
    assert accepted is not None
    now = attempt(training_hash=accepted.training_hash)
    status = PPOJobStatus(cluster_number=1, cluster_hash=accepted.cluster_hash, attempt=now)
    seen = observation(status, spec=SPEC, clusters=(CLUSTER,), jobs=(RAY_JOB,), monitor=reached())
    there = JudgedCheckpoint(ref=CheckpointRef(attempt=1, step=10), phase=CheckpointPhase.CONFIRMED)
    found = Judgement(attempt_state=attempt_state(), checkpoints=(there,), last_row=row(12))
    decision = supervise(seen, accepted, found)
    assert isinstance(decision, Begin)
    assert decision.intent.resume == ResumePoint(attempt=1, step=10)
