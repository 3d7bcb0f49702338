"""The operator is killed before or after any effect: the run ends the same."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.drive import Drive
from tests.support.scripts import runs_away
from tests.support.world import InPlace, World
from tests.unit.controller.test_hot import LONG
from tests.unit.controller.test_story import COLD, GUARDED

from ppojob_contract.data_plan import StepRange

CRASHES = st.dictionaries(st.integers(1, 60), st.sampled_from(["before", "after"]), max_size=8)
RHYTHM = st.sampled_from([1, 3, 10])


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(crashes=CRASHES, rhythm=RHYTHM, spec=st.sampled_from([GUARDED, COLD]))
async def test_crashes_never_lose_or_double_a_rollback(crashes, rhythm, spec):
    world = World(runs_away(18), spec=spec)
    world.crash_at = lambda count, _what: crashes.get(count)
    await Drive(world).to_the_end(at_most=rhythm)
    _one_rollback(world)
    assert sorted(world.attempts) == [1, 2]
    assert world.attempts[2].config.resume is not None
    assert world.attempts[2].config.resume.checkpoint.step == 10
    assert len({what for what in world.effects if what.startswith("create RayCluster")}) == 1


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    crashes=CRASHES,
    rhythm=RHYTHM,
    in_place=st.sampled_from(InPlace),
    load=st.integers(1, 40),
    away=st.tuples(st.integers(0, 60), st.integers(0, 30)),
)
async def test_hot_and_cold_never_both_happen(crashes, rhythm, in_place, load, away):
    """Whatever the trainer makes of the command, whenever the operator dies, however long the monitor is away."""
    spec = LONG | {"failurePolicy": {"startupTimeoutSeconds": 50}, "gracefulStopSeconds": 20}
    world = World(runs_away(18), spec=spec, in_place=in_place, load_seconds=load)
    world.crash_at = lambda count, _what: crashes.get(count)
    begin, seconds = away
    drive = Drive(world)

    def unreachable(world: World) -> bool:
        since = (world.now - drive.began).total_seconds()
        return begin <= since < begin + seconds

    while "finished" not in world.status:
        world.reachable = not unreachable(world)
        assert await drive.step(at_most=rhythm)
    _one_rollback(world)
    ran = [attempt for attempt in world.attempts.values() if attempt.rows]
    resumed = [attempt.config.resume.checkpoint for attempt in ran if attempt.config.resume]
    assert [ref.step for ref in resumed] == [10]


def _one_rollback(world: World) -> None:
    assert world.status["phase"] == "Succeeded"
    assert (world.status["rollbacks"], world.status["restarts"]) == (1, 0)
    assert world.overlaps == []
    left_out = [attempt.config.data.skip for attempt in world.attempts.values() if attempt.config.resume]
    assert set(left_out) == {(StepRange(attempt=1, first=17, last=20),)}
