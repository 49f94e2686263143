"""A call of a formula with small numbers, and what it must return, worked out by hand.

A case says how many multiply-accumulates there are, and how many of each elementary function besides. So a test need
not know what these count as, and a formula that takes an addition for a product is found although both count as one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from profilerkit.costs import Cost, convention

__all__ = ["CONSTANTS", "Case", "agrees", "case", "distinct_constants"]

CONSTANTS = [name for name in vars(convention) if name.isupper()]
#: More than any formula takes of one elementary function in a case.
BASE = 10**9


@dataclass(frozen=True)
class Case:
    """A call of a formula, its multiply-accumulates, and the elementary functions that it takes besides."""

    call: Callable[[], Cost]
    macs: int = 0
    takes: Mapping[str, int] = field(default_factory=dict)


def case(call: Callable[[], Cost], macs: int = 0, **takes: int) -> Case:
    return Case(call, macs, takes)


def agrees(example: Case) -> bool:
    """Say whether a formula returns what its case says, whatever the constants are at the time."""
    value = vars(convention)
    counts = Counter(example.takes)
    counts.update({"MULTIPLY": example.macs, "ADD": example.macs})
    flops = sum(value[name] * count for name, count in counts.items())
    try:
        return bool(example.call() == (example.macs, flops))
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return False


def distinct_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every elementary function a value of its own, so that no two sums of them are the same number."""
    for place, name in enumerate(CONSTANTS):
        monkeypatch.setattr(convention, name, 4 if name == "FOURIER_POINT" else BASE**place)
