"""What a model may do instead of what is counted, where that depends on values: another branch, or no run of a loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np

from .folding import Folding
from .values import Executed, Value
from .work import Work

__all__ = ["agree", "agree_on_constant", "hand_on_instead"]


def hand_on_instead(counted: Work, values: Sequence[Value], results: Sequence[Value]) -> Iterator[Executed]:
    """Yield what hands values on in place of the results of counted work, where that does not run."""
    made = {output.number for op in counted.executed for output in op.outputs}
    for value, result in zip(values, results, strict=True):
        if result.number in made:
            made.discard(result.number)
            yield Executed.of_handing_on(value, result.describe(), counted.executed[0].owner)


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
