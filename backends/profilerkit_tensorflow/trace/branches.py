"""The branches of a condition: which may be taken, and what is known where several may be.

The most expensive branch counts. What is true in one branch alone is not known after the condition: a number that one
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

__all__ = ["Tried", "agreed", "agreed_constant", "branch_names", "most_expensive"]

_SIDES = ("then", "else")


@dataclass(frozen=True)
class Tried:
    """The result of the walk over a body, before it is decided whether that counts."""

    results: Sequence[Value]
    executed: list[Executed]
    spans: list[tuple[int, int]]
    uncounted: Counter[str]

    @property
    def price(self) -> tuple[int, int, int]:
        """The key by which branches are compared: MACs, then FLOPs, then the number of operators."""
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


def most_expensive(tried: Sequence[Tried]) -> Tried:
    """Return the most expensive branch; operators that are uncounted in any of the branches are uncounted."""
    uncounted = reduce(or_, (branch.uncounted for branch in tried))
    return replace(max(tried, key=lambda branch: branch.price), uncounted=uncounted)


def agreed(folding: Folding, value: Value, others: Sequence[Value]) -> Value:
    """Return what is known about a value that may also be one of others; the value itself if they all agree."""
    common = reduce(Value.common, others, value)
    constant = agreed_constant(folding, [value, *others])
    if value.is_known_as(common) and (folding.constant(value) is None or constant is not None):
        return value
    common.constant = constant
    return common


def agreed_constant(folding: Folding, values: Sequence[Value]) -> Any:
    """Return the array if all values are known to be the same one, else None."""
    first, *others = (folding.constant(value) for value in values)
    if first is None or any(other is None or not np.array_equal(first, other) for other in others):
        return None
    return first
