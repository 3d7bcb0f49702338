"""verl's configuration for an attempt."""

from ppojob_operator.api.v1alpha1.spec import PPOJobSpec
from ppojob_operator.domain.verl_keys import KEYS, Scalar

_VALIDATE_FIRST = "trainer.val_before_train"


def overrides(spec: PPOJobSpec, *, first_attempt: bool) -> dict[str, Scalar | list[str] | None]:
    """Keys of verl and their values: those of the fields, then `trainer.overrides` (accepted ones touch none of them).

    A later attempt never validates first: that row is about a checkpoint that has been judged.
    """
    rendered: dict[str, Scalar | list[str] | None] = {}
    for key in KEYS:
        value = key.read(spec)
        if value is not None:
            rendered[key.key] = value
    rendered[_VALIDATE_FIRST] = bool(rendered[_VALIDATE_FIRST]) and first_attempt
    return rendered | {item.key: item.value for item in spec.trainer.overrides}
