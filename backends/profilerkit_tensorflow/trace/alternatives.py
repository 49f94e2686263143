"""What a model may do instead of what is counted, where that depends on values: another branch, or no run of a loop."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from profilerkit.backend_kit.graph_work import Body, make_fork
from profilerkit.backend_kit.program_parts import Fork

from .folding import Folding
from .ownership import Owner
from .values import Executed, Value, Work

__all__ = ["agree", "agree_on_constant", "make_graph_fork"]


def make_graph_fork(
    counted: Body[Work, Value], others: Sequence[Body[Work, Value]], reason: str, owner: Owner
) -> Fork[Executed]:
    """Return the fork at which one of several bodies runs, as `graph_work.make_fork`."""

    def hand_on(value: Value, result: Value) -> Executed:
        return Executed.of_handing_on(value, result.describe(), owner)

    return make_fork(counted, others, reason, hand_on)


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
