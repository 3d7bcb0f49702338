"""Two operators at once: the one whose view is behind does nothing."""

import pytest
from tests.support.builders import raw_spec
from tests.support.operators import Operator
from tests.support.scripts import healthy
from tests.support.world import World

from ppojob_operator.errors import Conflict


async def until(operator: Operator, reached) -> None:
    for _ in range(200):
        if reached(operator.world):
            return
        await operator.step()
    raise AssertionError(operator.world.status)


async def test_what_another_operator_has_removed_is_not_created_again():
    """Creating it needs nothing new in the status: only a write that changes nothing tells that the view is old."""
    world = World(healthy, spec=raw_spec(trainer={"image": "typo:1"}))
    behind, other = Operator(world), Operator(world)
    await until(behind, lambda world: world.status.get("clusterNumber") == 1)
    behind.store.freeze()
    world.clusters.clear()
    assert behind.store._old is not None
    behind.store._old.clusters.clear()
    world.edit(trainer={"image": "right:1"})
    world.edit(trainer={"image": "typo:1"})
    await until(other, lambda world: bool(world.clusters))
    await until(other, lambda world: world.status["phase"] == "Succeeded")
    with pytest.raises(Conflict):
        await behind.reconciler.reconcile(world.key, behind.course)
    assert not world.clusters, "the run has ended"
