"""The condition of a loop, in parts: it is true if all of them are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from numpy.typing import NDArray

from .folding import Folding
from .graph_access import body_named, skip_operators
from .values import Scope

__all__ = ["Condition", "ConditionPart", "find_source", "split_condition"]


class Condition(NamedTuple):
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

    def enter_branch(self, choice: tf.Operation, branch: Any) -> Condition:
        """Return the graph of a branch as a condition; its arguments follow the first input of the ``If``."""
        operands = list(choice.inputs)[1:]
        begins = [self.folding.find_value(operand, self.scope) for operand in operands]
        inside = Scope(branch, begins, self.scope, self.scope.owner)
        inside.bind_arguments()
        return Condition(self.folding, inside, [self.find_step(find_source(operand)) for operand in operands])


class ConditionPart(NamedTuple):
    """An operator that must give True for a loop to go on, and the condition whose graph it is in."""

    operator: tf.Operation
    condition: Condition


def split_condition(condition: Condition, tensor: tf.Tensor) -> Iterator[ConditionPart]:
    """Yield the parts of a condition, which is true if all parts are: ``i < 10`` and ``y > 0`` of ``i < 10 and y > 0``.

    ``tensor`` is the condition's result, or the result of a part that has parts itself.
    """
    tensor = find_source(tensor)
    operator = tensor.op
    if operator.type == "LogicalAnd":
        for operand in operator.inputs:
            yield from split_condition(condition, operand)
    elif operator.type in ("If", "StatelessIf"):
        yield from _split_choice(condition, tensor)
    elif operator.type != "Const":  # tf.while_loop without a limit of its own may add that it is true
        yield ConditionPart(operator, condition)


def _split_choice(condition: Condition, tensor: tf.Tensor) -> Iterator[ConditionPart]:
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
        yield from split_condition(condition, choice.inputs[0])
        yield from split_condition(condition.enter_branch(choice, then), then.outputs[index])
        return
    yield ConditionPart(choice, condition)
    if _is_false(then.outputs[index]):
        yield from split_condition(condition.enter_branch(choice, otherwise), otherwise.outputs[index])


def _is_false(tensor: tf.Tensor) -> bool:
    """Return whether a branch returns False."""
    tensor = find_source(tensor)
    return tensor.op.type == "Const" and not bool(tf.make_ndarray(tensor.op.node_def.attr["value"].tensor).any())


def _returns_test(tensor: tf.Tensor, branch: Any, choice: tf.Operation) -> bool:
    """Return whether a branch returns the test of its ``If``, which is also among the operands of the branch."""
    index = _find_position(find_source(tensor), branch)
    return index is not None and find_source(choice.inputs[1 + index]).name == find_source(choice.inputs[0]).name


def _find_position(tensor: tf.Tensor, graph: Any) -> int | None:
    """Return which of a graph's inputs a tensor is; None if it is none of them."""
    return next((index for index, candidate in enumerate(graph.inputs) if candidate.name == tensor.name), None)


def find_source(tensor: tf.Tensor) -> tf.Tensor:
    """Return the tensor that a chain of copies begins with."""
    return skip_operators(tensor, ("Identity", "StopGradient"))
