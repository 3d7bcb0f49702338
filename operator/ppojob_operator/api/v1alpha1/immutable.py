"""CEL rules on the whole object: its name, and what may not change once checkpoints can exist.

A checkpoint's shards carry the world size in their names and the shapes of these models, so a change would make every
one of them useless; the way out is a new PPOJob.
"""

NAME_RULE = (
    "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",
    "metadata.name must be at most 63 lower-case letters, digits and dashes, begin with a letter and have no dot",
)

_STARTED = "has(oldSelf.status) && has(oldSelf.status.attempt)"

_FIELDS = (
    ("cluster.nodes", False),
    ("cluster.devicesPerNode", False),
    ("model.actor.path", False),
    ("model.actor.lora", True),
    ("model.critic", True),
    ("training.strategy", False),
    ("storage", False),
)
"""(path below spec, whether it may be absent)."""


def _unchanged(path: str, *, optional: bool) -> str:
    new, old = f"self.spec.{path}", f"oldSelf.spec.{path}"
    return f"has({new}) == has({old}) && (!has({new}) || {new} == {old})" if optional else f"{new} == {old}"


def _rule(path: str, condition: str) -> tuple[str, str, str]:
    return (
        f"!({_STARTED}) || ({condition})",
        f"{path} cannot be changed once training has begun: existing checkpoints would not load; create a new PPOJob",
        f".spec.{path}",
    )


ROOT_RULES: tuple[tuple[str, str] | tuple[str, str, str], ...] = (
    NAME_RULE,
    *(_rule(path, _unchanged(path, optional=optional)) for path, optional in _FIELDS),
    _rule(
        "algorithm.estimator",
        "(self.spec.algorithm.estimator == 'GAE') == (oldSelf.spec.algorithm.estimator == 'GAE')",
    ),
)
