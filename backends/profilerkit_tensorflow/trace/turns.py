"""The number of turns of a loop, if it follows from the loop's condition before the model runs.

A loop runs while ``counter < limit`` is true. The counter starts at a known number, every turn adds a known step to it,
and the limit is known. If there are several such comparisons, the one that ends the loop first counts::

    i = 0
    while i < 10 and i != 8:    ``i < 10`` is true in 5 turns, ``i != 8`` in 4: the loop runs 4 times
        i += 2

A counter has the arithmetic of its dtype: integers wrap, and floats round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from profilerkit.backend_kit.loop_turns import Turns

from .folding import Folding
from .graph_access import body_named, skip_operators
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
#: The turns that are gone through one by one: so few first, and at most so many.
_FEW_TURNS, _MOST_TURNS = 2**10, 2**20


class _Condition(NamedTuple):
    """A graph that is computed before each turn: the condition of a loop, or a branch inside it.

    Attributes:
        folding: Computes the numbers that are known.
        scope: The graph, with the values that its inputs have before the first turn.
        steps: The number that each turn adds to each of its inputs: 0 if nothing; None if it is not known.
    """

    folding: Folding
    scope: Scope
    steps: Sequence[float | None]

    def find_number(self, tensor: tf.Tensor) -> NDArray[Any] | None:
        """Return a tensor's one number before the first turn, in its dtype; None if it is not known."""
        number: NDArray[Any] | None = self.folding.decide(self.folding.find_value(tensor, self.scope))
        return None if number is None or number.size != 1 else number.reshape(())

    def find_step(self, tensor: tf.Tensor) -> float | None:
        """Return the number that each turn adds to a tensor: 0 if it depends on no change, None if unknown."""
        position = _find_position(tensor, self.scope.graph)
        if position is not None:
            return self.steps[position]
        return 0 if all(self.find_step(operand) == 0 for operand in tensor.op.inputs) else None

    def enter_branch(self, choice: tf.Operation, branch: Any) -> _Condition:
        """Return the graph of a branch as a condition; its arguments follow the first input of the ``If``."""
        operands = list(choice.inputs)[1:]
        begins = [self.folding.find_value(operand, self.scope) for operand in operands]
        inside = Scope(branch, begins, self.scope, self.scope.owner)
        inside.bind_arguments()
        return _Condition(self.folding, inside, [self.find_step(_find_source(operand)) for operand in operands])


class _Part(NamedTuple):
    """An operator that must give True for a loop to go on, and the condition whose graph it is in."""

    operator: tf.Operation
    condition: _Condition


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
    whole = _Condition(folding, condition, steps)
    comparisons = [_read_comparison(part) for part in _split_condition(whole, condition.graph.outputs[0])]
    true_turns = [_count_true_turns(comparison) for comparison in comparisons if comparison is not None]
    most = min(true_turns, default=math.inf)
    if most == math.inf:
        return Turns(0, None)
    may_stop = len(true_turns) < len(comparisons)
    return Turns(0 if may_stop else int(most), int(most))


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


# Parts of a condition -------------------------------------------------------------------------------------------------


def _split_condition(condition: _Condition, tensor: tf.Tensor) -> Iterator[_Part]:
    """Yield the parts of a condition, which is true if all parts are: ``i < 10`` and ``y > 0`` of ``i < 10 and y > 0``.

    ``tensor`` is the condition's result, or the result of a part that has parts itself.
    """
    tensor = _find_source(tensor)
    operator = tensor.op
    if operator.type == "LogicalAnd":
        for operand in operator.inputs:
            yield from _split_condition(condition, operand)
    elif operator.type in ("If", "StatelessIf"):
        yield from _split_choice(condition, tensor)
    elif operator.type != "Const":  # tf.while_loop without a limit of its own may add that it is true
        yield _Part(operator, condition)


def _split_choice(condition: _Condition, tensor: tf.Tensor) -> Iterator[_Part]:
    """Yield the parts of a condition that is an ``If``: Python's ``and`` computes its right side only if necessary.

    Seen in TensorFlow 2.21, where AutoGraph writes the conditions of loops as ``If(test, then, otherwise)``::

        while i < 10 and y > 0:              If(i < 10, y > 0, i < 10), the test itself, which is False there
        while i < 10: if y > 0: break        If(not stopped, i < 10, not stopped)
        for i in tf.range(10): ... break     If(i < 10, not stopped, False)

    Each is true if both the test and ``then`` are: these are its parts. ``If(stopped, False, i < 10)``, which a user
    may write, has the parts ``i < 10`` and the opposite of the test. There is no operator for the opposite, so the
    ``If`` stands for it. If neither branch is False, the ``If`` is the only part. It is never counted.
    """
    choice, index = tensor.op, tensor.value_index
    then, otherwise = (
        body_named(condition.scope.graph, choice.get_attr(side).name) for side in ("then_branch", "else_branch")
    )
    if _is_false(otherwise.outputs[index]) or _returns_test(otherwise.outputs[index], otherwise, choice):
        yield from _split_condition(condition, choice.inputs[0])
        yield from _split_condition(condition.enter_branch(choice, then), then.outputs[index])
        return
    yield _Part(choice, condition)
    if _is_false(then.outputs[index]):
        yield from _split_condition(condition.enter_branch(choice, otherwise), otherwise.outputs[index])


def _is_false(tensor: tf.Tensor) -> bool:
    """Return whether a branch returns False."""
    tensor = _find_source(tensor)
    return tensor.op.type == "Const" and not bool(tf.make_ndarray(tensor.op.node_def.attr["value"].tensor).any())


def _returns_test(tensor: tf.Tensor, branch: Any, choice: tf.Operation) -> bool:
    """Return whether a branch returns the test of its ``If``, which is also among the operands of the branch."""
    index = _find_position(_find_source(tensor), branch)
    return index is not None and _find_source(choice.inputs[1 + index]).name == _find_source(choice.inputs[0]).name


def _read_comparison(part: _Part) -> _Comparison | None:
    """Return a part as a counter and its limit; None if it is anything else, or their numbers are not known."""
    kind = part.operator.type
    if kind not in _COMPARISONS:
        return None
    counter, limit = map(_find_source, part.operator.inputs)
    if part.condition.find_step(counter) == 0:  # ``10 > i``: the counter can only be at the right
        counter, limit = limit, counter
        kind = _MIRRORED.get(kind, kind)
    step = part.condition.find_step(counter)
    if not step or part.condition.find_step(limit) != 0:
        return None
    start, end = part.condition.find_number(counter), part.condition.find_number(limit)
    return None if start is None or end is None else _Comparison(kind, start, end, step)


# How often a comparison is true ---------------------------------------------------------------------------------------


def _count_true_turns(comparison: _Comparison) -> float:
    """Return before how many turns a comparison is true, until it is false for the first time.

    Infinity if it still is after `_MOST_TURNS` turns.
    """
    for turns in (_FEW_TURNS, _MOST_TURNS):
        numbers = _list_numbers(comparison.start, comparison.step, turns)
        is_true = _COMPARISONS[comparison.kind](numbers, comparison.limit)
        if not is_true.all():
            return int(np.argmin(is_true))
    return math.inf


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


# Tensors of graphs ----------------------------------------------------------------------------------------------------


def _find_position(tensor: tf.Tensor, graph: Any) -> int | None:
    """Return which of a graph's inputs a tensor is; None if it is none of them."""
    return next((index for index, candidate in enumerate(graph.inputs) if candidate.name == tensor.name), None)


def _find_source(tensor: tf.Tensor) -> tf.Tensor:
    """Return the tensor that a chain of copies begins with."""
    return skip_operators(tensor, ("Identity", "StopGradient"))
