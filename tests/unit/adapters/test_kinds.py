"""The table of permissions names code that is there."""

from importlib import import_module

import pytest

from ppojob_operator.adapters.kubernetes.kinds import LEASE_USES, USES

USED = sorted({used for uses in (*USES.values(), LEASE_USES) for used in uses.values()})


@pytest.mark.parametrize("used", USED)
def test_every_verb_names_code_that_exists(used: str) -> None:
    parts = used.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found = import_module(f"ppojob_operator.{'.'.join(parts[:cut])}")
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        assert callable(found)
        return
    pytest.fail(f"no module of {used}")
