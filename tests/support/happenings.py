"""What may happen to a job, as the rules of a state machine.

The operator that leads may be killed before or after any effect, or lose a request or its answer; its watches may be
late; one that led before may look once more with what it knew. Users edit, suspend and delete by hand; nodes die;
trainers end, hang or damage files.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import hypothesis.strategies as st
from hypothesis import assume, note
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.support.builders import raw_guardrail
from tests.support.operators import Operator
from tests.support.weather import LEARNING_RATE, Weather, guards, specs
from tests.support.world import InPlace, World

from ppojob_contract.outcomes import ExitClass
from ppojob_operator.controller.reconcile import AT_ONCE

WORK: Callable[[Any], Any] = rule(passes=st.integers(1, 12), rhythm=st.sampled_from([0, 1, 1, 4, 15]))
NONSENSE = raw_guardrail(conditions=[{"metric": "nosuch", "above": 1.0}])
FAULTS = ("before", "after", "lost", "unanswered")


class Happenings(RuleBasedStateMachine):
    """A world, an operator, and everything that may happen."""

    world: World
    leader: Operator
    former: Operator | None = None
    """Led before, and does not know yet that it does not any more."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.weather = Weather()
        self.faults: list[str] = []
        self.rates = [LEARNING_RATE]
        """Learning rates that the spec had."""
        self.guards_edited = False
        self.number = 0
        """The attempt when the last pass began."""

    def look_at_status(self) -> None:
        """Called after each pass, while the world is as the pass saw it."""

    @initialize(
        spec=specs(),
        start=st.integers(1, 8),
        stop=st.integers(1, 25),
        load=st.integers(1, 40),
        spells=st.lists(st.tuples(st.integers(8, 45), st.integers(1, 8), st.integers(1, 4)), max_size=3),
    )
    def apply(self, spec: dict[str, Any], start: int, stop: int, load: int, spells: list[tuple[int, int, int]]) -> None:
        self.weather.spells += spells
        world = World(self.weather, spec=spec, start_seconds=start, stop_seconds=stop, load_seconds=load)
        world.crash_at = self._fault
        self.world = world
        self.leader = Operator(world)

    def _fault(self, _count: int, what: str) -> str | None:
        fault = self.faults.pop(0) if self.faults else None
        if fault:
            note(f"{fault}: {what}")
        return fault or None

    # ---- the operators -----------------------------------------------------------------------------------------

    def one_pass(self) -> timedelta | None:
        self.number = self.world.status.get("attempt", {}).get("number", 0)
        delay = self.runner.run(self.leader.look())
        self.look_at_status()
        return delay

    def _work(self, passes: int, rhythm: int) -> None:
        """Passes, with time between them; none (rhythm 0) as after many wake-ups at once."""
        for _ in range(passes):
            delay = self.one_pass()
            if delay is None or delay > AT_ONCE:
                self.world.tick(rhythm)

    # Rules are chosen with equal odds: often enough, nothing happens but work.
    work = WORK(_work)
    go_on = WORK(_work)
    carry_on = WORK(_work)
    keep_on = WORK(_work)

    @rule(seconds=st.integers(1, 90))
    def nobody_looks(self, seconds: int) -> None:
        self.world.tick(seconds)

    @rule()
    def restart(self) -> None:
        self.leader.restart()

    @rule()
    def another_leads(self) -> None:
        """It lists everything first."""
        self.former, self.leader = self.leader, Operator(self.world)
        self.former.store.freeze()

    @precondition(lambda self: self.former and self.former.store.behind)
    @rule()
    def who_led_before_looks_once_more(self) -> None:
        before = len(self.world.effects)
        assert self.former is not None
        self.runner.run(self.former.look())
        self.former = None
        assert len(self.world.effects) == before, "an act on an old view"

    @rule()
    def watches_are_late(self) -> None:
        self.leader.store.freeze()

    @rule()
    def watches_are_back(self) -> None:
        self.leader.store.thaw()

    @rule(behind=st.integers(0, 6), fault=st.sampled_from(FAULTS))
    def something_fails(self, behind: int, fault: str) -> None:
        """At the effect behind so many others."""
        self.faults += ["" for _ in range(behind)] + [fault]

    # ---- the cluster -------------------------------------------------------------------------------------------

    @rule()
    def monitor_goes(self) -> None:
        self.world.reachable = False

    @rule()
    def monitor_comes_back(self) -> None:
        self.world.reachable = True

    @rule()
    def head_is_lost(self) -> None:
        self.world.lose_head()

    @precondition(lambda self: self.world.clusters)
    @rule(grace=st.integers(1, 60))
    def clusters_are_deleted_by_hand(self, grace: int) -> None:
        self.world.delete_clusters(grace)

    @precondition(lambda self: self.world.ray_jobs)
    @rule(linger=st.integers(0, 20))
    def ray_jobs_are_deleted_by_hand(self, linger: int) -> None:
        self.world.linger_seconds = linger
        for job in self.world.ray_jobs.values():
            job.deleting = True

    # ---- the trainer -------------------------------------------------------------------------------------------

    @rule(how=st.sampled_from(InPlace))
    def rollbacks_in_place(self, how: InPlace) -> None:
        self.world.in_place = how

    @rule(ahead=st.integers(0, 8), length=st.integers(1, 8), cure=st.integers(1, 4))
    def kl_goes_bad(self, ahead: int, length: int, cure: int) -> None:
        self.weather.spells.append((self.weather.reached[1] + 1 + ahead, length, cure))

    @rule(ahead=st.integers(0, 8))
    def kl_is_not_measured(self, ahead: int) -> None:
        self.weather.absent.add(self.weather.reached[1] + 1 + ahead)

    @rule(ahead=st.integers(0, 8))
    def kl_is_no_number(self, ahead: int) -> None:
        self.weather.not_finite.add(self.weather.reached[1] + 1 + ahead)

    @rule(ahead=st.integers(0, 4), how=st.sampled_from(ExitClass), later=st.integers(0, 1))
    def trainer_ends(self, ahead: int, how: ExitClass, later: int) -> None:
        attempt, step = self.weather.reached
        self.weather.ends[attempt + later, step + 1 + ahead] = how

    @precondition(lambda self: self.world.checkpoints)
    @rule(data=st.data())
    def checkpoint_is_damaged(self, data: st.DataObject) -> None:
        refs = list(self.world.checkpoints)
        ref = refs[data.draw(st.integers(0, len(refs) - 1))]
        note(f"damaged: {ref}")
        self.world.checkpoints[ref] = "actor/model.pt is cut"

    # ---- the user ----------------------------------------------------------------------------------------------

    def _edit(self, **blocks: Any) -> None:
        assume(not self.world.status.get("finished"))
        self.world.edit(**blocks)

    @rule(suspend=st.booleans())
    def suspend(self, suspend: bool) -> None:
        self._edit(suspend=suspend)

    @rule(rate=st.sampled_from([1e-3, 8e-4, 3e-4]))
    def edit_learning_rate(self, rate: float) -> None:
        assert self.world.job is not None
        self._edit(training=self.world.job["spec"]["training"] | {"learningRate": rate})
        self.rates.append(rate)

    @rule(guard=guards())
    def edit_guardrails(self, guard: dict[str, Any]) -> None:
        self._edit(guardrails=[guard])
        self.guards_edited = True

    @rule(size=st.sampled_from(["1Gi", "2Gi"]))
    def edit_cluster(self, size: str) -> None:
        self._edit(cluster={"device": "CPU", "sharedMemory": size})

    @rule()
    def edit_into_nonsense_and_back(self) -> None:
        assert self.world.job is not None
        before = self.world.job["spec"]["guardrails"]
        self._edit(guardrails=[NONSENSE])
        self.one_pass()
        self._edit(guardrails=before)

    @rule(there=st.booleans())
    def claim(self, there: bool) -> None:
        self.world.claim = there
