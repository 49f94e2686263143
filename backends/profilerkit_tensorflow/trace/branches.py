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

from profilerkit.trace.bounds import Branch, Choice

from .folding import Folding
from .values import Executed, Value

__all__ = ["Tried", "agreed", "agreed_constant", "branch_names", "choice_of", "may_stop_choice", "most_expensive"]

_SIDES = ("then", "else")


@dataclass(frozen=True)
class Tried:
    """The result of the walk over a body, before it is decided whether that counts."""

    results: Sequence[Value]
    executed: list[Executed]
    spans: list[tuple[int, int]]
    uncounted: Counter[str]
    choices: Sequence[Choice] = ()

    @property
    def work(self) -> Branch:
        """What it does in each layer, as one side of a choice."""
        return _branch(self.executed, self.choices)

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


def choice_of(tried: Sequence[Tried], taken: Tried) -> tuple[Choice, ...]:
    """Return the choice between branches one of which is counted; nothing where all of them do the same work."""
    branches = tuple(each.work for each in tried)
    if all(branch == branches[0] for branch in branches):
        return ()
    counted = next(index for index, each in enumerate(tried) if each.executed is taken.executed)
    reason = "a condition depends on values that the graph does not tell: the most expensive of its branches is counted"
    return (Choice(branches, counted, reason),)


def may_stop_choice(executed: Sequence[Executed], choices: Sequence[Choice]) -> tuple[Choice, ...]:
    """Return the choice between all runs of a loop and none, for one that may stop before its limit."""
    every, none = _branch(executed, choices), Branch({})
    reason = "a loop may stop before it reaches its limit; it is counted up to that"
    return (Choice((every, none), 0, reason),) if every.work else ()


def _branch(executed: Sequence[Executed], choices: Sequence[Choice]) -> Branch:
    work: dict[str, tuple[int, int]] = {}
    for each in executed:
        macs, flops = work.get(each.owner.path, (0, 0))
        work[each.owner.path] = macs + each.macs, flops + each.flops
    return Branch({path: done for path, done in work.items() if any(done)}, tuple(choices))


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
