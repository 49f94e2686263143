"""A registry of formulas, and what a formula is given and returns."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from registry_checks import CHECKS


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_of_the_registry(check: Callable[[], None]) -> None:
    check()
