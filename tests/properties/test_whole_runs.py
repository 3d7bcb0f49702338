"""Looking more or less often changes no decision of a whole run, with the real controller."""

from collections.abc import Mapping

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, settings
from tests.support.drive import Drive
from tests.support.weather import Weather, specs
from tests.support.world import World

from ppojob_contract.outcomes import ExitClass

SPELLS = st.lists(st.tuples(st.integers(5, 45), st.integers(1, 8), st.integers(1, 4)), max_size=4)
STEPS = st.sets(st.integers(3, 45), max_size=4)
ENDS = st.dictionaries(
    st.tuples(st.integers(1, 3), st.integers(3, 45)),
    st.sampled_from([ExitClass.OUT_OF_MEMORY, ExitClass.COMMUNICATION, ExitClass.DATA_ERROR]),
    max_size=2,
)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=max(1, settings.default.max_examples // 4))
@given(spec=specs(), spells=SPELLS, absent=STEPS, not_finite=STEPS, ends=ENDS, slow=st.sampled_from([2, 7, 30, 100]))
async def test_the_same_decisions_at_any_rhythm(*, spec, spells, absent, not_finite, ends, slow):
    def run() -> World:
        weather = Weather()
        weather.spells, weather.absent, weather.not_finite, weather.ends = spells, absent, not_finite, ends
        return World(weather, spec=spec)

    often = await Drive(run()).to_the_end(at_most=1)
    seldom = await Drive(run()).to_the_end(at_most=slow)
    assert story(often) == story(seldom)


def story(world: World) -> Mapping[str, object]:
    """What was decided: where each attempt began, with what, and how the run ended."""
    return {
        "phase": world.status["phase"],
        "rollbacks": world.status["rollbacks"],
        "restarts": world.status["restarts"],
        "attempts": {
            number: (attempt.config.resume and attempt.config.resume.checkpoint, dict(attempt.config.settings))
            for number, attempt in world.attempts.items()
        },
        "failed": next(item["reason"] for item in world.status["conditions"] if item["type"] == "Failed"),
    }
