"""`operator/` is a distribution root: as a package it would shadow the standard library's module of that name."""

import operator

from tests.support.kube import REPOSITORY


def test_operator_is_no_package() -> None:
    assert not (REPOSITORY / "operator" / "__init__.py").exists()
    assert not (REPOSITORY / "operator" / "operator.py").exists()
    assert operator.__spec__ is not None
    assert operator.add(1, 1) == 2
