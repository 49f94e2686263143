"""The number of turns of a loop, if it follows from the loop's condition before the model runs.

A loop runs while ``counter < limit`` is true. The counter starts at a known number, every turn adds a known step to it,
and the limit is known. If there are several such comparisons, the one that ends the loop first counts::

    i = 0
    while i < 10 and i != 8:    ``i < 10`` is true in 5 turns, ``i != 8`` in 4: the loop runs 4 times
        i += 2

The ``and`` is an operator here, as ``maximum_iterations`` of ``tf.while_loop`` makes it. The ``and`` of Python, and a
``break``, are branches in the graph of the condition: how often such a loop runs is not known.

A counter has the arithmetic of its dtype: integers wrap, and floats round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from profilerkit.backend_kit.running_order import Turns

from .folding import Folding
from .values import Scope, Value

__all__ = ["advance_counter", "count_turns", "find_steps", "is_loop_counter"]

#: The equal comparisons with exchanged sides.
_MIRRORED = {"Less": "Greater", "LessEqual": "GreaterEqual", "Greater": "Less", "GreaterEqual": "LessEqual"}

_COMPARISONS: dict[str, Callable[[NDArray[Any], NDArray[Any]], Any]] = {
    "Less": np.less,
    "LessEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "NotEqual": np.not_equal,
}
#: The most turns that are gone through one by one.
_MOST_TURNS = 2**20


class _Comparison(NamedTuple):
    """A counter compared with a limit.

    Attributes:
        kind: The type of the operator, with the counter at its left: "Less" for ``counter < limit``.
        start: The counter before the first turn, an array without dimensions.
        limit: The limit, in the same dtype.
        step: The number that each turn adds to the counter; never 0.
    """

    kind: str
    start: NDArray[Any]
    limit: NDArray[Any]
    step: float


def count_turns(folding: Folding, condition: Scope, steps: Sequence[float | None]) -> Turns:
    """Return how often a loop runs.

    ``condition`` is the scope of the condition, whose arguments are the loop's first values; ``steps`` are the numbers
    that each turn adds to them (`find_steps`).
    """
    reader = _ConditionReader(folding, condition, steps)
    comparisons = list(map(reader.read_comparison, _list_parts(condition.graph.outputs[0])))
    true_turns = [_count_true_turns(comparison) for comparison in comparisons if comparison is not None]
    most = min(true_turns, default=math.inf)
    if most == math.inf:
        return Turns(0, None)
    may_stop = len(true_turns) < len(comparisons)
    return Turns(0 if may_stop else int(most), int(most))


def _list_parts(tensor: tf.Tensor) -> Iterator[tf.Operation]:
    """Yield the operators that must all give True for a loop to go on: two of ``logical_and(i < 10, y > 0)``."""
    operator = _find_source(tensor).op
    if operator.type == "LogicalAnd":
        for operand in operator.inputs:
            yield from _list_parts(operand)
    elif operator.type != "Const":  # tf.while_loop without a limit of its own may add that it is true
        yield operator


class _ConditionReader(NamedTuple):
    """Reads the graph of a loop's condition.

    Attributes:
        folding: Computes the numbers that are known.
        scope: The graph, with the values that its inputs have before the first turn.
        steps: The number that each turn adds to each of its inputs: 0 if nothing; None if it is not known.
    """

    folding: Folding
    scope: Scope
    steps: Sequence[float | None]

    def read_comparison(self, operator: tf.Operation) -> _Comparison | None:
        """Return an operator as a counter and its limit; None if it is anything else, or the numbers are not known."""
        kind = operator.type
        if kind not in _COMPARISONS:
            return None
        counter, limit = map(_find_source, operator.inputs)
        if self._find_step(counter) == 0:  # ``10 > i``: the counter can only be at the right
            counter, limit = limit, counter
            kind = _MIRRORED.get(kind, kind)
        step = self._find_step(counter)
        if not step or self._find_step(limit) != 0:
            return None
        start, end = self._find_number(counter), self._find_number(limit)
        return None if start is None or end is None else _Comparison(kind, start, end, step)

    def _find_number(self, tensor: tf.Tensor) -> NDArray[Any] | None:
        """Return a tensor's one number before the first turn, in its dtype; None if it is not known."""
        number: NDArray[Any] | None = self.folding.decide(self.folding.find_value(tensor, self.scope))
        return None if number is None or number.size != 1 else number.reshape(())

    def _find_step(self, tensor: tf.Tensor) -> float | None:
        """Return the number that each turn adds to a tensor: 0 if it depends on no change, None if unknown."""
        names = [variable.name for variable in self.scope.graph.inputs]
        if tensor.name in names:
            return self.steps[names.index(tensor.name)]
        return 0 if all(self._find_step(operand) == 0 for operand in tensor.op.inputs) else None


def _find_source(tensor: tf.Tensor) -> tf.Tensor:
    """Return the tensor that a chain of copies begins with."""
    while tensor.op.type in ("Identity", "StopGradient"):
        tensor = tensor.op.inputs[0]
    return tensor


# Steps of the variables -----------------------------------------------------------------------------------------------


def find_steps(folding: Folding, body: Any, begins: Sequence[Value]) -> list[float | None]:
    """Return the number that each turn of a loop adds to each loop variable: 0 if nothing; None if it is not known.

    ``body`` is the graph of the loop's body, ``begins`` the values of the variables before the first turn.
    """
    unchanged = {
        tensor.name: begin
        for tensor, begin, result in zip(body.inputs, begins, body.outputs, strict=False)
        if _find_source(result).name == tensor.name
    }
    return [_find_step(folding, body, position, unchanged) for position in range(len(body.inputs))]


def _find_step(folding: Folding, body: Any, position: int, unchanged: Mapping[str, Value]) -> float | None:
    """Return the number that each turn adds to a loop variable, if it becomes ``i + 2``, ``2 + i`` or ``i - 2``.

    The 2 may be a constant of the body or one of the variables that are ``unchanged``, by the names of the body's
    inputs.
    """
    variable = body.inputs[position]
    result = _find_source(body.outputs[position])
    if result.name == variable.name:
        return 0
    other = _find_other_operand(result, variable)
    if other is None:
        return None
    number = folding.constant(unchanged[other.name]) if other.name in unchanged else folding.find_constant(other)
    if number is None or number.size != 1:
        return None
    added: float = number.item()
    return -added if result.op.type == "Sub" else added


def _find_other_operand(result: tf.Tensor, variable: tf.Tensor) -> tf.Tensor | None:
    """Return the tensor that is added to a variable, or subtracted, to make a result; None for another operation."""
    if result.op.type not in ("Add", "AddV2", "Sub"):
        return None
    left, right = map(_find_source, result.op.inputs)
    if left.name == variable.name:
        return right
    return left if right.name == variable.name and result.op.type != "Sub" else None


def is_loop_counter(variable: tf.Tensor) -> bool:
    """Return whether a loop variable is TensorFlow's own counter of the turns of every loop.

    Nothing but the gradient of the loop reads it: that loop runs as often as it says.
    """
    name: str = variable.op.name
    return name.endswith("loop_counter")


def advance_counter(start: NDArray[Any], step: float, turns: int) -> NDArray[Any]:
    """Return a counter after so many turns, in its dtype and shape."""
    last: NDArray[Any] = _list_numbers(start.reshape(()), step, turns)[-1]
    return last.reshape(start.shape)


# How often a comparison is true ---------------------------------------------------------------------------------------


def _count_true_turns(comparison: _Comparison) -> float:
    """Return before how many turns a comparison is true, until it is false for the first time.

    Infinity if it still is after `_MOST_TURNS` turns.
    """
    numbers = _list_numbers(comparison.start, comparison.step, _MOST_TURNS)
    is_true = _COMPARISONS[comparison.kind](numbers, comparison.limit)
    return math.inf if is_true.all() else int(np.argmin(is_true))


def _list_numbers(start: NDArray[Any], step: float, turns: int) -> NDArray[Any]:
    """Return a counter's ``turns + 1`` numbers, the first before any turn, in the arithmetic of its dtype."""
    if start.dtype.kind in "iu":
        changes: NDArray[Any] = np.arange(turns + 1).astype(start.dtype) * np.asarray(int(step)).astype(start.dtype)
        numbers: NDArray[Any] = start + changes
        return numbers
    changes = np.full(turns + 1, step, start.dtype)
    changes[0] = start
    with np.errstate(all="ignore"):
        numbers = np.add.accumulate(changes, dtype=start.dtype)
    return numbers
