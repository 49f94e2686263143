"""The branches of a condition: which may be taken, and what is known where several may be.

The dearest counts. What holds only in one of them must not be taken for known after the condition: a number that one
branch returns would decide further conditions and loops as if that branch were always taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from .folding import Folding
from .values import Executed, Value

__all__ = ["Tried", "agreed", "agreed_constant", "branch_names", "dearest"]

_SIDES = ("then", "else")


@dataclass(frozen=True)
class Tried:
    """What the walk over a body found, before it is known whether that counts."""

    results: Sequence[Value]
    executed: list[Executed]
    spans: list[tuple[int, int]]
    uncounted: Counter[str]

    @property
    def price(self) -> tuple[int, int, int]:
        """What branches are compared by: MACs first, then FLOPs, then operators."""
        return sum(each.macs for each in self.executed), sum(each.flops for each in self.executed), len(self.executed)


def branch_names(operator: Any, chosen: Any) -> list[str]:
    """Return the functions of the branches that may be taken; only one where the ``chosen`` one is known, not None."""
    is_case = operator.type.endswith("Case")
    branches = operator.get_attr("branches") if is_case else [operator.get_attr(f"{s}_branch") for s in _SIDES]
    names = [function.name for function in branches]
    if chosen is None:
        return names
    taken = int(chosen) if is_case else int(not bool(chosen))
    return [names[taken if 0 <= taken < len(names) else -1]]


def dearest(tried: Sequence[Tried]) -> Tried:
    """Return the dearest branch; what cannot be counted in any that may be taken is not counted."""
    uncounted = reduce(or_, (branch.uncounted for branch in tried))
    return replace(max(tried, key=lambda branch: branch.price), uncounted=uncounted)


def agreed(folding: Folding, value: Value, others: Sequence[Value]) -> Value:
    """Return what is known of a value that may also be one of others; the value itself if that is all it tells."""
    known = reduce(Value.common, others, value)
    constant = agreed_constant(folding, [value, *others])
    if value.is_known_as(known) and (folding.constant(value) is None or constant is not None):
        return value
    known.constant = constant
    return known


def agreed_constant(folding: Folding, values: Sequence[Value]) -> Any:
    """Return the array that all values are known to be, else None."""
    first, *others = (folding.constant(value) for value in values)
    if first is None or any(other is None or not np.array_equal(first, other) for other in others):
        return None
    return first
