"""The branches of a condition: which may be taken, and what is known where several may be.

The most expensive branch counts. What is true in one branch alone is not known after the condition: a number that one
branch returns would decide further conditions and loops as if that branch were always taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from profilerkit.backend_kit.branch_memory import Fork, Side
from profilerkit.trace.bounds import Branch, Choice

from .folding import Folding
from .values import Executed, Value

__all__ = [
    "Tried",
    "agree",
    "agree_on_constant",
    "branch_names",
    "make_choice",
    "make_fork",
    "may_stop_choice",
    "may_stop_fork",
    "most_expensive",
]

_SIDES = ("then", "else")
_DEAREST = "a condition depends on values that the graph does not tell: the most expensive of its branches is counted"
#: By whether the limit of a loop is known: why its runs may be none.
_MAY_STOP = {
    True: "a loop may stop before it reaches its limit; it is counted up to that",
    False: "a loop whose number of runs is not known may not run at all; it is counted once",
}


@dataclass(frozen=True)
class Tried:
    """The result of the walk over a body, before it is decided whether that counts."""

    results: Sequence[Value]
    executed: list[Executed]
    spans: list[tuple[int, int]]
    uncounted: Counter[str]
    choices: Sequence[Choice] = ()
    forks: Sequence[Fork] = ()

    @property
    def work(self) -> Branch:
        """What it does in each layer, as one side of a choice."""
        return _branch(self.executed, self.choices)

    def side(self, *further: Executed) -> Side:
        """Return what it does as one side of a fork; ``further`` hand on what it returns."""
        return Side((*self.executed, *further), tuple(self.spans), tuple(self.forks))

    @property
    def price(self) -> tuple[int, int, int]:
        """The key by which branches are compared: MACs, then FLOPs, then the number of operators."""
        return sum(op.macs for op in self.executed), sum(op.flops for op in self.executed), len(self.executed)


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


def make_fork(tried: Sequence[Tried], taken: Tried, used: Sequence[int]) -> tuple[Fork, ...]:
    """Return the fork between branches one of which is counted; the forks of that one where there are no others.

    Each of the others hands its results on as those of the counted one, of which those at the indices ``used`` are
    read.
    """
    others = [branch for branch in tried if branch.executed is not taken.executed]
    if not others:
        return tuple(taken.forks)
    results = [taken.results[index] for index in used]
    instead = [[other.results[index] for index in used] for other in others]
    sides = [
        other.side(*_hand_on(taken.executed, values, results)) for other, values in zip(others, instead, strict=True)
    ]
    return (Fork(0, taken.side(), sides, _DEAREST),)


def may_stop_fork(start: int, every: Side, first: Sequence[Value], results: Sequence[Value], has_limit: bool) -> Fork:
    """Return the fork between the counted runs of a loop and none, which leaves its variables their first values."""
    return Fork(start, every, (Side(tuple(_hand_on(every.operators, first, results))),), _MAY_STOP[has_limit])


def _hand_on(counted: Sequence[Executed], values: Sequence[Value], results: Sequence[Value]) -> Iterator[Executed]:
    """Yield what hands values on as results that operators would make which are not run."""
    made = {value for op in counted for value, _, _ in op.outputs}
    for value, result in zip(values, results, strict=True):
        if result.key in made:
            made.discard(result.key)
            outputs = ((result.key, result.shape, result.dtype),)
            yield Executed("Identity", "", (value.key,), outputs, 1, counted[0].owner, silent=True)


def make_choice(tried: Sequence[Tried], taken: Tried) -> tuple[Choice, ...]:
    """Return the choice between branches one of which is counted; nothing where all of them do the same work."""
    branches = tuple(branch.work for branch in tried)
    if all(branch == branches[0] for branch in branches):
        return ()
    counted = next(index for index, branch in enumerate(tried) if branch.executed is taken.executed)
    return (Choice(branches, counted, _DEAREST),)


def may_stop_choice(executed: Sequence[Executed], choices: Sequence[Choice], has_limit: bool) -> tuple[Choice, ...]:
    """Return the choice between the counted runs of a loop and none: its condition may end it at any time."""
    every, none = _branch(executed, choices), Branch({})
    return (Choice((every, none), 0, _MAY_STOP[has_limit]),) if every.work else ()


def _branch(executed: Sequence[Executed], choices: Sequence[Choice]) -> Branch:
    return Branch.of(((op.owner.path, op.macs, op.flops) for op in executed), choices)


def agree(folding: Folding, value: Value, others: Sequence[Value]) -> Value:
    """Return what is known about a value that may also be one of others; the value itself if they all agree."""
    common = reduce(Value.common, others, value)
    constant = agree_on_constant(folding, [value, *others])
    if value.is_known_as(common) and (folding.constant(value) is None or constant is not None):
        return value
    common.constant = constant
    return common


def agree_on_constant(folding: Folding, values: Sequence[Value]) -> Any:
    """Return the array if all values are known to be the same one, else None."""
    first, *others = (folding.constant(value) for value in values)
    if first is None or any(other is None or not np.array_equal(first, other) for other in others):
        return None
    return first
