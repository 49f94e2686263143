"""How often a loop runs, where that follows from its condition before the model runs.

A loop runs while ``counter < limit`` is true, where the counter starts at a known number, every run adds a known number
to it, and the limit is known. Of several such comparisons, the one that ends the loop first counts. A counter has the
arithmetic of its dtype: integers wrap, and floats round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from .folding import Folding
from .graph_access import body_named
from .values import Scope, Value

__all__ = ["counter_after", "counter_steps", "counts_runs", "trip_count"]

#: What a comparison becomes when its sides change places.
_MIRRORED = {"Less": "Greater", "LessEqual": "GreaterEqual", "Greater": "Less", "GreaterEqual": "LessEqual"}

_HOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "Less": np.less,
    "LessEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "NotEqual": np.not_equal,
}
#: The most rounds that are gone through one by one.
_MOST = 2**20


def trip_count(folding: Folding, condition: Scope, steps: Sequence[float | None]) -> tuple[int | None, bool]:
    """Return how often a loop runs at most, and whether it may stop earlier; None where that is not known.

    ``condition`` is the scope of the condition, whose arguments are the loop's first values; ``steps`` are what each
    run adds to them.
    """
    parts = list(_count_parts(folding, condition.graph.outputs[0], condition, steps))
    counts = [runs for runs in parts if runs is not None]
    if not counts or min(counts) == math.inf:
        return None, True
    return max(0, int(min(counts))), len(counts) < len(parts)


def counter_steps(folding: Folding, body: Any, first: Sequence[Value]) -> list[float | None]:
    """Return what each run of a loop adds to each loop variable: 0 if nothing; None where that is not known.

    ``body`` is the graph of the loop's body, ``first`` the values the loop begins with.
    """
    results = [_through(result).name for result in body.outputs]
    still = {tensor.name for tensor, result in zip(body.inputs, results, strict=False) if result == tensor.name}
    unchanged = {tensor.name: value for tensor, value in zip(body.inputs, first, strict=True) if tensor.name in still}
    return [_find_step(folding, body, position, unchanged) for position in range(len(body.inputs))]


def counts_runs(variable: Any) -> bool:
    """Return whether a loop variable is TensorFlow's own counter, which only the gradient of the loop reads.

    Therefore the gradient of a loop that may stop before its limit is counted up to that limit, as the loop is.
    """
    name: str = variable.op.name
    return name.endswith("loop_counter")


def _find_step(folding: Folding, body: Any, position: int, unchanged: Mapping[str, Value]) -> float | None:
    """Return what each run adds to the loop variable at a position; 0 if nothing, None where that is not known."""
    placeholder = body.inputs[position]
    result = _through(body.outputs[position])
    if result.name == placeholder.name:
        return 0
    if result.op.type not in ("Add", "AddV2", "Sub"):
        return None
    left, right = map(_through, result.op.inputs)
    sign = -1 if result.op.type == "Sub" else 1
    if right.name == placeholder.name and sign == 1:
        left, right = right, left
    if left.name != placeholder.name:
        return None
    added = folding.constant(unchanged[right.name]) if right.name in unchanged else folding.find_constant(right)
    return None if added is None or added.size != 1 else sign * added.item()


def _count_parts(folding: Folding, tensor: Any, scope: Scope, steps: Sequence[float | None]) -> Iterator[float | None]:
    """Yield for each comparison of a condition in how many runs it is true; None where that is not known."""
    tensor = _through(tensor)
    operator = tensor.op
    if operator.type == "LogicalAnd":
        for part in operator.inputs:
            yield from _count_parts(folding, part, scope, steps)
    elif operator.type in ("If", "StatelessIf"):
        yield from _count_parts_of_choice(folding, tensor, scope, steps)
    elif operator.type != "Const":  # tf.while_loop without a limit of its own may add that it is true
        yield _count_runs(folding, operator, scope, steps) if operator.type in _HOLDS else None


def _count_parts_of_choice(
    folding: Folding, tensor: Any, scope: Scope, steps: Sequence[float | None]
) -> Iterator[float | None]:
    """Yield the parts of a condition that is false in one branch, so that it is true where the other branch is.

    Python's ``and`` becomes such a condition, and so does a ``break``: before each run it is checked for.
    """
    operator = tensor.op
    sides = [body_named(scope.graph, operator.get_attr(f"{side}_branch").name) for side in ("then", "else")]
    holds, fails = sides
    if _is_false(fails.outputs[tensor.value_index], operator, fails):
        yield from _count_parts(folding, operator.inputs[0], scope, steps)
    elif _is_false(holds.outputs[tensor.value_index], operator):
        holds = fails
        yield None
    else:
        yield None
        return
    operands = list(operator.inputs)[1:]
    inside = Scope(holds, [folding.find_value(operand, scope) for operand in operands], scope, scope.owner)
    inside.values.update(
        {one_tensor.name: value for one_tensor, value in zip(holds.inputs, inside.arguments, strict=True)}
    )
    moves = [_find_move(_through(operand), scope.graph, steps) for operand in operands]
    yield from _count_parts(folding, holds.outputs[tensor.value_index], inside, moves)


def _is_false(tensor: Any, operator: Any, otherwise: Any = None) -> bool:
    """Return whether a branch returns False; in the branch ``otherwise`` the condition itself is false."""
    tensor = _through(tensor)
    if tensor.op.type == "Const":
        return not bool(tf.make_ndarray(tensor.op.node_def.attr["value"].tensor).any())
    index = None if otherwise is None else _find_position(tensor, otherwise)
    return index is not None and _through(operator.inputs[1 + index]).name == _through(operator.inputs[0]).name


def _count_runs(folding: Folding, comparison: Any, condition: Scope, steps: Sequence[float | None]) -> float | None:
    """Return in how many runs a comparison is true; None where its sides are no counter and no known limit."""
    sides = [_through(side) for side in comparison.inputs]
    moves = [_find_move(side, condition.graph, steps) for side in sides]
    kind = comparison.type
    if moves[0] == 0:  # the left side is constant: then the right one must change
        sides, moves = sides[::-1], moves[::-1]
        kind = _MIRRORED.get(kind, kind)
    if not moves[0] or moves[1] != 0:
        return None
    start, end = (folding.constant(folding.find_value(side, condition)) for side in sides)
    if start is None or end is None or start.size != 1 or end.size != 1:
        return None
    return _count_rounds(kind, start, end, moves[0])


def _count_rounds(kind: str, start: Any, limit: Any, step: float) -> float:
    """Return how many steps a comparison holds; infinity if it always does, and if nobody has seen it fail."""
    if start.dtype.kind in "iu":
        rounds = _without_wrapping(kind, start.item() - limit.item(), int(step))
        if rounds is not None and _fits(start.item() + int(step) * rounds, start.dtype):
            return rounds
    holds = _HOLDS[kind](_list_numbers(start.reshape(()), step, _MOST), limit.reshape(()))
    return math.inf if holds.all() else int(np.argmin(holds))


def _without_wrapping(kind: str, distance: int, step: int) -> int | None:
    """Return how many steps a comparison with a limit holds in unlimited integers; None if it always does."""
    if kind == "NotEqual":
        return -distance // step if distance % step == 0 and -distance // step >= 0 else None
    if kind.startswith("Greater"):
        distance, step = -distance, -step
    if step < 0:
        return 0 if distance > 0 or (distance == 0 and not kind.endswith("Equal")) else None
    return max(0, -distance // step + 1 if kind.endswith("Equal") else -(distance // step))


def _fits(number: int, dtype: Any) -> bool:
    limits = np.iinfo(dtype)
    return bool(limits.min <= number <= limits.max)


def _list_numbers(start: Any, step: float, rounds: int) -> Any:
    """Return a counter's numbers, the first before any round, in the arithmetic of its dtype."""
    if start.dtype.kind in "iu":
        return start + np.arange(rounds + 1).astype(start.dtype) * np.asarray(int(step)).astype(start.dtype)
    numbers = np.full(rounds + 1, step, start.dtype)
    numbers[0] = start
    with np.errstate(all="ignore"):
        return np.add.accumulate(numbers, dtype=start.dtype)


def counter_after(start: Any, step: float, rounds: int) -> Any:
    """Return a counter after so many rounds; None for a float of too many."""
    if start.dtype.kind in "iu":
        bits = 8 * start.dtype.itemsize
        ends = np.asarray((start.item() + int(step) * rounds) % 2**bits, np.uint64)
        return ends.astype(start.dtype).reshape(start.shape)
    return None if rounds > _MOST else _list_numbers(start.reshape(()), step, rounds)[-1].reshape(start.shape)


def _find_move(tensor: Any, graph: Any, steps: Sequence[float | None]) -> float | None:
    """Return what each run adds to one side of a comparison: 0 if it is constant, None if that is not known."""
    position = _find_position(tensor, graph)
    if position is not None:
        return steps[position]
    return 0 if all(_find_move(operand, graph, steps) == 0 for operand in tensor.op.inputs) else None


def _find_position(tensor: Any, graph: Any) -> int | None:
    return next((index for index, candidate in enumerate(graph.inputs) if candidate.name == tensor.name), None)


def _through(tensor: Any) -> Any:
    """Return the tensor that a chain of copies begins with."""
    while tensor.op.type in ("Identity", "StopGradient"):
        tensor = tensor.op.inputs[0]
    return tensor
