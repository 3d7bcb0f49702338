"""The phases' graph, and the page that tells it to users."""

import re
from pathlib import Path

import pytest
from tests.support.builders import NOW, raw_spec
from tests.support.observations import observation

from ppojob_operator.api.v1alpha1.status import AttemptStatus, Intent, IntentKind, Phase, PPOJobStatus
from ppojob_operator.domain.phase import NEXT, phase

PAGE = Path(__file__).parents[3] / "docs/operating.md"


def test_the_page_tells_the_graph():
    table = PAGE.read_text().split("A phase is followed only by one of these:")[1].split("\n\n")[1]
    told: dict[str, set[str]] = {}
    names: list[str] = []
    for line in table.splitlines()[2:]:
        first, following, _ = (cell.strip() for cell in re.split(r"\|", line)[1:-1])
        names = first.replace("(new)", "").split(", ") if first else names
        for name in names:
            told.setdefault(name, set()).update(following.split(", ") if following else ())
    assert told == {str(name): {str(item) for item in following} for name, following in NEXT.items()}


def test_every_phase_is_in_the_graph_and_success_is_the_end():
    assert set(NEXT) == {"", *Phase}
    assert [name for name, following in NEXT.items() if not following] == [Phase.SUCCEEDED]


@pytest.mark.parametrize("kind", [IntentKind.FAIL, IntentKind.COMPLETE])
def test_a_run_that_is_about_to_end_is_not_called_suspended(kind):
    status = PPOJobStatus(
        phase=Phase.RUNNING,
        cluster_number=1,
        attempt=AttemptStatus(number=1, cluster=1, created=NOW, ended=NOW),
        intent=Intent(id="i", kind=kind, since=NOW, reason="Hang", attempt=1),
    )
    assert phase(observation(status, spec=raw_spec(suspend=True)), status) is Phase.RUNNING
