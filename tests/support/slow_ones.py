"""Marks the values of a parametrised test that take long, so that `make test` leaves them to `make test-all`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

__all__ = ["slow_ones"]


def slow_ones(values: Iterable[Any], slow: Collection[Any]) -> list[Any]:
    """Return the values, those of ``slow`` marked; each of ``slow`` must be among the values."""
    values = list(values)
    unknown = [test for test in slow if test not in values]
    if unknown:
        raise ValueError(f"no values of this test: {unknown}")
    return [pytest.param(value, marks=pytest.mark.slow) if value in slow else value for value in values]
