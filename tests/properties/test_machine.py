"""The whole controller against a world in which anything may happen at any time: what must hold whatever happens.

What may happen: `tests/support/happenings.py`. What is true is worked out by `tests/support/truth.py`.
"""

import json
import math
import os
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import invariant
from tests.support import truth
from tests.support.happenings import NONSENSE, Happenings
from tests.support.operators import Operator
from tests.support.truth import Rules
from tests.support.weather import FACTOR, LEARNING_RATE
from tests.support.world import InPlace

from ppojob_contract.mailbox import CheckpointRef
from ppojob_operator.controller.reconcile import AT_ONCE
from ppojob_operator.domain.phase import NEXT

PASSES_TO_THE_END = 1500
SHRINKS = "HYPOTHESIS_SHRINK" in os.environ
"""Making a failing example smaller takes many minutes: on demand only."""


class Machine(Happenings):
    """The invariants are looked at after each rule and after each pass."""

    def __init__(self) -> None:
        super().__init__()
        self.confirmed: set[CheckpointRef] = set()
        """Whatever was once called Confirmed."""
        self.intents: set[str] = set()
        self.rolled_back: dict[int, int] = {}
        """Rollbacks by the attempt that they ended, with the step of the breach."""
        self.without_progress = 0
        self.highest_breach = 0
        self.finished: tuple[str, str] | None = None

    @property
    def asked(self) -> Rules:
        """Of the spec that governs."""
        assert self.world.job is not None
        spec = self.world.job["spec"]
        if spec["guardrails"] == [NONSENSE]:
            spec = self.world.revisions.get(self.world.status.get("acceptedRevision", ""), spec)
        return Rules.of(spec)

    def look_at_status(self) -> None:
        """After each pass, while the world is as the pass saw it."""
        status, number = self.world.status, self.number
        for item in status.get("checkpoints", {}).get("items", []):
            ref = CheckpointRef(attempt=item["attempt"], step=item["step"])
            if item["phase"] == "Confirmed" and ref not in self.confirmed:
                self._confirmed(ref, number)
        for ref in self.world.confirmed:
            assert ref in self.confirmed, f"{ref} was written down before the status had it"
        intent = status.get("intent")
        if intent is not None and intent["id"] not in self.intents:
            self.intents.add(intent["id"])
            if intent["kind"] == "Rollback":
                self._rolls_back(intent, number)
        assert status.get("rollbacks", 0) == len(self.rolled_back), "one rollback for one breach"
        self._end_stays()

    def _confirmed(self, ref: CheckpointRef, number: int) -> None:
        why_not = truth.earned(self.world, number, ref, self.asked)
        assert not why_not, f"{ref} was confirmed: {why_not}"
        self.confirmed.add(ref)

    def _rolls_back(self, intent: dict[str, Any], number: int) -> None:
        spec = self.world.job["spec"] if self.world.job else {}
        found = truth.breach(self.world, number, self.asked)
        assert found is not None, f"nothing was breached: {intent['message']}"
        assert number not in self.rolled_back, "one rollback for one breach"
        first, last = found
        assert intent["step"] == last, "the earliest breach"
        target = CheckpointRef(**intent["resume"])
        assert target in self.confirmed, f"{target} was never confirmed"
        assert self.world.checkpoints[target] is None, f"{target} is damaged"
        assert truth.in_past(self.world, number, target), f"{target} did not lead here"
        assert target.step < first - 1, f"row {first} describes {target}"
        progressed = any(
            ref.step > self.highest_breach for ref in self.confirmed if truth.in_past(self.world, number, ref)
        )
        self.without_progress = 1 if progressed else self.without_progress + 1
        self.highest_breach = max(self.highest_breach, last)
        assert self.without_progress <= spec["rollback"]["limit"], "more rollbacks than the limit"
        self.rolled_back[number] = last

    def _end_stays(self) -> None:
        status = self.world.status
        if "finished" not in status:
            assert self.finished is None, "an end was taken back"
            return
        now = (status["phase"], json.dumps([item for item in status["conditions"] if item["type"] != "Accepted"]))
        assert self.finished is None or self.finished[0] == now[0], "an end that did not stay"
        self.finished = self.finished or now

    @invariant()
    def what_must_hold(self) -> None:
        if not hasattr(self, "world"):
            return
        assert self.world.overlaps == [], "two drivers at once"
        assert self.world.conflicting == [], "a number names one configuration"
        for before, after in pairwise(["", *self.world.phases]):
            assert after in NEXT[before], f"{before or 'nothing'} to {after}"
        for number, attempt in self.world.attempts.items():
            self._adjusted_once_for_each_rollback(number, attempt.config.settings.get("LearningRate"))

    def _adjusted_once_for_each_rollback(self, number: int, value: float | None) -> None:
        """The spec's value times the factor, once for each rollback since the user last changed it."""
        times = sum(ended < number for ended in self.rolled_back)
        if len(self.rates) == 1:
            assert math.isclose(value or LEARNING_RATE, LEARNING_RATE * FACTOR**times), f"attempt {number}: {value}"
        possible = [rate * FACTOR**count for rate in self.rates for count in range(1, times + 1)]
        assert value is None or any(math.isclose(value, item) for item in possible), f"attempt {number}: {value}"

    def teardown(self) -> None:
        try:
            if hasattr(self, "world"):
                self._to_the_end()
        finally:
            self.runner.close()

    def _to_the_end(self) -> None:
        """Nothing fails any more: the run comes to its end, and says why where it waits."""
        world = self.world
        self.faults.clear()
        self.leader = Operator(world)
        world.reachable = world.claim = True
        world.in_place = InPlace.DO
        if world.job is not None and world.job["spec"].get("suspend"):
            world.edit(suspend=False)
        for _ in range(PASSES_TO_THE_END):
            if "finished" in world.status:
                break
            delay = self.one_pass()
            if delay is None or delay > AT_ONCE:
                world.tick(2)
            self.what_must_hold()
        assert "finished" in world.status, f"never ends: {world.status['phase']}: {world.status['message']}"
        self.one_pass()
        self.what_must_hold()
        self._every_breach_was_acted_on()
        assert not world.clusters
        assert not world.ray_jobs

    def _every_breach_was_acted_on(self) -> None:
        if self.world.status["phase"] == "Failed":
            failed = next(item for item in self.world.status["conditions"] if item["type"] == "Failed")
            assert failed["message"], "an end says why"
            return
        if self.guards_edited:
            return
        for number in self.world.attempts:
            found = truth.breach(self.world, number, self.asked)
            assert found is None or number in self.rolled_back, f"attempt {number} went bad at {found}"


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=max(1, settings.default.max_examples * 6 // 10),
    stateful_step_count=30,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, *([Phase.shrink] if SHRINKS else [])],
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
