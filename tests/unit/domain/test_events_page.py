"""docs/events.md lists every event there is, and none that is not."""

import ast
import re
from pathlib import Path

from ppojob_operator.api.v1alpha1.guardrails import GuardrailAction
from ppojob_operator.domain import events

ROOT = Path(__file__).parents[3]
OPERATOR = ROOT / "operator" / "ppojob_operator"
SOURCES = [*OPERATOR.glob("domain/*.py"), *OPERATOR.glob("controller/*.py")]


def documented() -> set[str]:
    rows = re.findall(r"^\| ([A-Z]\w+(?:, [A-Z]\w+)*) \| (?:Normal|Warning) \|", page(), re.MULTILINE)
    return {reason for row in rows for reason in row.split(", ")}


def page() -> str:
    return (ROOT / "docs" / "events.md").read_text()


def emitted() -> set[str]:
    """Reasons that are written out where an event is made."""
    found = {reason for _, reason in events._BEGUN.values()}
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Event":
                given = {keyword.arg: keyword.value for keyword in node.keywords}
                reason = given.get("reason")
                if isinstance(reason, ast.Constant):
                    found.add(str(reason.value))
    return found


def test_every_event_is_documented() -> None:
    assert emitted() - documented() == set()


def test_what_is_documented_is_somewhere_in_the_code() -> None:
    """Some events take their reason from the condition that changed, some from the guardrail's action."""
    words = {word for source in SOURCES for word in re.findall(r'"([A-Z]\w+)"', source.read_text())}
    dry_runs = {f"{action.value}DryRun" for action in GuardrailAction}
    assert documented() - emitted() - words - dry_runs == set()
    assert len(documented()) > 15
