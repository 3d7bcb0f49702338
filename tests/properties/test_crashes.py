"""The operator is killed before or after any effect: the run ends the same."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.drive import Drive
from tests.support.scripts import runs_away
from tests.support.world import World
from tests.unit.controller.test_story import GUARDED


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    crashes=st.dictionaries(st.integers(1, 60), st.sampled_from(["before", "after"]), max_size=8),
    rhythm=st.sampled_from([1, 3, 10]),
)
async def test_crashes_never_lose_or_double_a_rollback(crashes, rhythm):
    world = World(runs_away(18), spec=GUARDED)
    world.crash_at = lambda count, _what: crashes.get(count)
    await Drive(world).to_the_end(at_most=rhythm)
    assert world.status["phase"] == "Succeeded"
    assert (world.status["rollbacks"], world.status["restarts"]) == (1, 0)
    assert sorted(world.attempts) == [1, 2]
    assert world.attempts[2].config.resume is not None
    assert world.attempts[2].config.resume.checkpoint.step == 10
    assert world.overlaps == []
    assert len({what for what in world.effects if what.startswith("create RayCluster")}) == 1
