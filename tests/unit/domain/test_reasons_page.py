"""docs/operating.md lists every reason for which a job can fail."""

import re
from pathlib import Path

from ppojob_contract.outcomes import ExitClass
from ppojob_operator.domain import rollback

ROOT = Path(__file__).parents[3]
_CALL = re.compile(r'\b(?:fail|_restart|_exhausted)\((?:\s*(?:observation|accepted|judgement|breach),)+\s*"(\w+)"')


def test_every_reason_is_on_the_page() -> None:
    sources = [path.read_text() for path in Path(rollback.__file__).parent.glob("*.py")]
    reasons = {reason for source in sources for reason in _CALL.findall(source)}
    assert {"NoUsableCheckpoint", "HeadLost", "RollbacksExhausted"} <= reasons
    page = (ROOT / "docs" / "operating.md").read_text()
    assert sorted(reason for reason in reasons if f"`{reason}`" not in page) == []
    assert [item for item in ExitClass if item is not ExitClass.DUPLICATE and not re.search(rf"\b{item}\b", page)] == []
