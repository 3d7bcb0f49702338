"""What a reward term scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One response to one row's prompt."""

    response: str
    ground_truth: Any = None
    data_source: Any = None
    extra_info: Mapping[str, Any] = field(default_factory=dict)
    prompt: Sequence[Mapping[str, Any]] = ()
    """The conversation so far, as messages with `role` and `content`."""
    tokens: int | None = None
    """Length of the response in the policy's tokens; None where nobody counted."""

    @property
    def truth(self) -> str:
        """The ground truth as text."""
        value = self.ground_truth
        return value if isinstance(value, str) else "" if value is None else str(value)
