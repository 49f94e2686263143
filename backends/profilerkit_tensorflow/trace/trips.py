"""How often a loop runs, where that follows from its condition before the model runs.

A loop runs while ``counter < limit`` is true, where the counter starts at a known number, every run adds a known number
to it, and the limit is known. Of several such comparisons, the one that ends the loop first counts. A counter has the
arithmetic of its dtype: integers wrap, and floats round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from .folding import Folding
from .graph_access import body_named, skip_operators
from .values import Scope, Value

__all__ = ["Trips", "count_trips", "counter_after", "counter_steps", "counts_runs"]

#: What a comparison becomes when its sides change places.
_MIRRORED = {"Less": "Greater", "LessEqual": "GreaterEqual", "Greater": "Less", "GreaterEqual": "LessEqual"}

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Less": np.less,
    "LessEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "NotEqual": np.not_equal,
}
#: The most runs that are gone through one by one.
_MOST_RUNS = 2**20


class Trips(NamedTuple):
    """How often a loop runs.

    Attributes:
        most: How often at most; None where that is not known.
        may_stop: Whether it may stop earlier.
    """

    most: int | None
    may_stop: bool


def count_trips(folding: Folding, condition: Scope, steps: Sequence[float | None]) -> Trips:
    """Return how often a loop runs.

    ``condition`` is the scope of the condition, whose arguments are the loop's first values; ``steps`` are what each
    run adds to them.
    """
    parts = list(_count_parts(folding, condition.graph.outputs[0], condition, steps))
    counts = [runs for runs in parts if runs is not None]
    if not counts or min(counts) == math.inf:
        return Trips(None, may_stop=True)
    return Trips(max(0, int(min(counts))), may_stop=len(counts) < len(parts))


# What the runs add to the variables -----------------------------------------------------------------------------------


def counter_steps(folding: Folding, body: Any, first: Sequence[Value]) -> list[float | None]:
    """Return what each run of a loop adds to each loop variable: 0 if nothing; None where that is not known.

    ``body`` is the graph of the loop's body, ``first`` the values the loop begins with.
    """
    results = [_find_source(result).name for result in body.outputs]
    still = {tensor.name for tensor, result in zip(body.inputs, results, strict=False) if result == tensor.name}
    unchanged = {tensor.name: value for tensor, value in zip(body.inputs, first, strict=True) if tensor.name in still}
    return [_find_step(folding, body, position, unchanged) for position in range(len(body.inputs))]


def _find_step(folding: Folding, body: Any, position: int, unchanged: Mapping[str, Value]) -> float | None:
    """Return what each run adds to the loop variable at a position; 0 if nothing, None where that is not known."""
    placeholder = body.inputs[position]
    result = _find_source(body.outputs[position])
    if result.name == placeholder.name:
        return 0
    if result.op.type not in ("Add", "AddV2", "Sub"):
        return None
    left, right = map(_find_source, result.op.inputs)
    sign = -1 if result.op.type == "Sub" else 1
    if right.name == placeholder.name and sign == 1:
        left, right = right, left
    if left.name != placeholder.name:
        return None
    added = folding.constant(unchanged[right.name]) if right.name in unchanged else folding.find_constant(right)
    return None if added is None or added.size != 1 else sign * added.item()


def counts_runs(variable: Any) -> bool:
    """Return whether a loop variable is TensorFlow's own counter, which only the gradient of the loop reads.

    Therefore the gradient of a loop that may stop before its limit is counted up to that limit, as the loop is.
    """
    name: str = variable.op.name
    return name.endswith("loop_counter")


def counter_after(start: Any, step: float, runs: int) -> Any:
    """Return a counter after so many runs; None for a float of too many."""
    if start.dtype.kind in "iu":
        bits = 8 * start.dtype.itemsize
        ends = np.asarray((start.item() + int(step) * runs) % 2**bits, np.uint64)
        return ends.astype(start.dtype).reshape(start.shape)
    return None if runs > _MOST_RUNS else _list_numbers(start.reshape(()), step, runs)[-1].reshape(start.shape)


# What a condition says ------------------------------------------------------------------------------------------------


def _count_parts(folding: Folding, tensor: Any, scope: Scope, steps: Sequence[float | None]) -> Iterator[float | None]:
    """Yield for each comparison of a condition in how many runs it is true; None where that is not known."""
    tensor = _find_source(tensor)
    operator = tensor.op
    if operator.type == "LogicalAnd":
        for part in operator.inputs:
            yield from _count_parts(folding, part, scope, steps)
    elif operator.type in ("If", "StatelessIf"):
        yield from _count_parts_of_choice(folding, tensor, scope, steps)
    elif operator.type != "Const":  # tf.while_loop without a limit of its own may add that it is true
        yield _count_runs(folding, operator, scope, steps) if operator.type in _COMPARISONS else None


def _count_parts_of_choice(
    folding: Folding, tensor: Any, scope: Scope, steps: Sequence[float | None]
) -> Iterator[float | None]:
    """Yield the parts of a condition that is false in one branch, so that it is true where the other branch is.

    Python's ``and`` becomes such a condition, and so does a ``break``: before each run it is checked for.
    """
    operator, index = tensor.op, tensor.value_index
    then, otherwise = (body_named(scope.graph, operator.get_attr(side).name) for side in ("then_branch", "else_branch"))
    if _is_false(otherwise.outputs[index]) or _returns_condition(otherwise.outputs[index], otherwise, operator):
        yield from _count_parts(folding, operator.inputs[0], scope, steps)
        deciding = then
    else:
        yield None
        if not _is_false(then.outputs[index]):
            return
        deciding = otherwise
    operands = list(operator.inputs)[1:]
    inside = Scope(deciding, [folding.find_value(operand, scope) for operand in operands], scope, scope.owner)
    inside.bind_arguments()
    added = [_find_added(_find_source(operand), scope.graph, steps) for operand in operands]
    yield from _count_parts(folding, deciding.outputs[index], inside, added)


def _is_false(tensor: Any) -> bool:
    """Return whether a branch returns False."""
    tensor = _find_source(tensor)
    return tensor.op.type == "Const" and not bool(tf.make_ndarray(tensor.op.node_def.attr["value"].tensor).any())


def _returns_condition(tensor: Any, branch: Any, operator: Any) -> bool:
    """Return whether a branch returns the condition itself, which is false where the condition's other branch runs."""
    index = _find_position(_find_source(tensor), branch)
    return index is not None and _find_source(operator.inputs[1 + index]).name == _find_source(operator.inputs[0]).name


def _count_runs(folding: Folding, comparison: Any, condition: Scope, steps: Sequence[float | None]) -> float | None:
    """Return in how many runs a comparison is true; None where its sides are no counter and no known limit."""
    counter, limit = map(_find_source, comparison.inputs)
    step, change = (_find_added(side, condition.graph, steps) for side in (counter, limit))
    kind = comparison.type
    if step == 0:  # the left side is constant: then the right one must change
        counter, limit, step, change = limit, counter, change, step
        kind = _MIRRORED.get(kind, kind)
    if not step or change != 0:
        return None
    start, end = (folding.constant(folding.find_value(side, condition)) for side in (counter, limit))
    if start is None or end is None or start.size != 1 or end.size != 1:
        return None
    return _count_steps(kind, start, end, step)


def _find_added(tensor: Any, graph: Any, steps: Sequence[float | None]) -> float | None:
    """Return what each run adds to one side of a comparison: 0 if it is constant, None if that is not known."""
    position = _find_position(tensor, graph)
    if position is not None:
        return steps[position]
    return 0 if all(_find_added(operand, graph, steps) == 0 for operand in tensor.op.inputs) else None


# How often a comparison is true ---------------------------------------------------------------------------------------


def _count_steps(kind: str, start: Any, limit: Any, step: float) -> float:
    """Return after how many steps a comparison fails; infinity if it never does, and if nobody has seen it fail."""
    if start.dtype.kind in "iu":
        steps = _count_steps_without_wrapping(kind, start.item() - limit.item(), int(step))
        if steps is not None and _fits(start.item() + int(step) * steps, start.dtype):
            return steps
    is_true = _COMPARISONS[kind](_list_numbers(start.reshape(()), step, _MOST_RUNS), limit.reshape(()))
    return math.inf if is_true.all() else int(np.argmin(is_true))


def _count_steps_without_wrapping(kind: str, distance: int, step: int) -> int | None:
    """Return after how many steps a comparison with a limit fails in unlimited integers; None if it never does.

    ``distance`` is how far the counter starts above the limit.
    """
    if kind == "NotEqual":
        return -distance // step if distance % step == 0 and -distance // step >= 0 else None
    if kind.startswith("Greater"):
        distance, step = -distance, -step
    or_equal = kind.endswith("Equal")
    if step < 0:
        fails_at_once = distance > 0 or (distance == 0 and not or_equal)
        return 0 if fails_at_once else None
    return max(0, -distance // step + 1 if or_equal else -(distance // step))


def _fits(number: int, dtype: Any) -> bool:
    limits = np.iinfo(dtype)
    return bool(limits.min <= number <= limits.max)


def _list_numbers(start: Any, step: float, runs: int) -> Any:
    """Return a counter's numbers, the first before any run, in the arithmetic of its dtype."""
    if start.dtype.kind in "iu":
        return start + np.arange(runs + 1).astype(start.dtype) * np.asarray(int(step)).astype(start.dtype)
    numbers = np.full(runs + 1, step, start.dtype)
    numbers[0] = start
    with np.errstate(all="ignore"):
        return np.add.accumulate(numbers, dtype=start.dtype)


# Tensors of graphs ----------------------------------------------------------------------------------------------------


def _find_position(tensor: Any, graph: Any) -> int | None:
    """Return which of a graph's inputs a tensor is; None if it is none of them."""
    return next((index for index, candidate in enumerate(graph.inputs) if candidate.name == tensor.name), None)


def _find_source(tensor: Any) -> Any:
    """Return the tensor that a chain of copies begins with."""
    return skip_operators(tensor, ("Identity", "StopGradient"))
