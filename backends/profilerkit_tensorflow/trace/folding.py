"""Values that are known before the model runs: small constants, and results of them and of shapes.

Loop limits, reshapes and axes are made of these: ``Max(Range(0, Shape(x)[0], 1))`` is a number once ``x`` has a shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np
import tensorflow as tf

from profilerkit.costs import Shape

from ..compat.graphs import run_operator
from .ownership import Owner
from .tensor_facts import PartialShape, static_shape
from .values import NOT_FOLDED, Scope, Value

__all__ = ["Folding", "small_value"]

#: The most elements of an array that is kept: larger ones decide no loop and no axis.
LARGEST = 4096
#: Operators that tell something of their input's shape.
_OF_SHAPES = ("Shape", "Size", "Rank")
#: Operators that are run if all that they read is known: limits, axes and sizes are made by these.
_FOLDED = """
    Abs Add AddV2 All Any ArgMax ArgMin Cast Ceil ConcatV2 Div Equal ExpandDims Fill Floor FloorDiv FloorMod GatherV2
    Greater GreaterEqual Identity Less LessEqual LogicalAnd LogicalNot LogicalOr Max Maximum Mean Min Minimum Mul Neg
    NotEqual Pack PreventGradient Prod Range RealDiv Reshape Round SelectV2 Sign Snapshot Sqrt Square Squeeze
    StopGradient StridedSlice Sub Sum
"""
_is_folded = frozenset(_FOLDED.split()).__contains__


def small_value(tensor: Any, most_elements: int = LARGEST) -> Any:
    """Return the numbers of an eager tensor that may decide a condition, a loop or a size; None for others."""
    is_number = tensor.dtype not in (tf.resource, tf.variant, tf.string)
    if not (is_number and hasattr(tensor, "numpy")):
        return None
    elements = tensor.shape.num_elements()  # None if the size is not known
    return tensor.numpy() if elements is not None and elements <= most_elements else None


class Folding:
    """Keeps the values of one walk and finds their constants; each is found once and remembered on its value."""

    def __init__(self) -> None:
        self._numbers = count()
        #: The values that are known because the inputs that were given are.
        self._from_inputs: set[int] = set()
        #: Whether such a value has decided a branch or a loop.
        self.follows_inputs = False

    def new_value(self, shape: PartialShape, dtype: str, tensor: Any, scope: Scope | None = None) -> Value:
        """Return a new value."""
        return Value(next(self._numbers), shape, dtype, tensor, scope)

    def find_value(self, tensor: Any, scope: Scope) -> Value:
        """Return the value of a graph's tensor in a scope; it is made from the graph if no walked operator made it."""
        value = scope.values.get(tensor.name)
        if value is None:
            value = scope.values[tensor.name] = self.new_value(static_shape(tensor), tensor.dtype.name, tensor, scope)
        return value

    def find_constant(self, tensor: Any) -> Any:
        """Return the numpy array of a tensor that is a constant of its graph, else None."""
        without_arguments = Scope(tensor.graph, [], None, Owner("", 0))  # so that only constants of the graph are known
        return self.constant(self.find_value(tensor, without_arguments))

    def give_input(self, value: Value, numbers: Any) -> None:
        """Give the value of an input its numpy array; None if it is not known."""
        value.constant = numbers
        self._from_inputs.add(value.number)

    def give_result(self, value: Value, numbers: Any, sources: Sequence[Value]) -> None:
        """Give a value the array that follows from other values; it follows the inputs if one of these does."""
        value.constant = numbers
        if any(map(self.follows, sources)):
            self._from_inputs.add(value.number)

    def decide(self, value: Value) -> Any:
        """Return the numpy array of a value that decides a branch or a loop, else None; note whether inputs decide."""
        constant = self.constant(value)
        self.follows_inputs |= constant is not None and self.follows(value)
        return constant

    def follows(self, value: Value) -> bool:
        """Return whether a value is known because an input is given; to be asked once its constant is found."""
        return value.number in self._from_inputs

    def constant(self, value: Value) -> Any:
        """Return a value's numpy array; None if it is not known."""
        if value.constant is NOT_FOLDED:
            value.constant = None  # a value that depends on itself is not known
            value.constant = self._fold(value)
        return value.constant

    def find_common_constant(self, values: Sequence[Value]) -> Any:
        """Return the array that all values are known to be; None if they are not known to be the same one."""
        first, *others = map(self.constant, values)
        is_common = first is not None and all(other is not None and np.array_equal(first, other) for other in others)
        return first if is_common else None

    def _fold(self, value: Value) -> Any:
        """Return the array that a value has in each run of the model; None if it is not known, or large."""
        shape = value.known_shape
        if value.scope is None or (shape is not None and shape.numel > LARGEST):
            return None
        if value.dtype in ("resource", "variant", "string"):
            return None
        operator = value.tensor.op
        if operator.type == "Const":
            return tf.make_ndarray(operator.node_def.attr["value"].tensor)
        if operator.type in _OF_SHAPES:
            return self._fold_shape(operator, value.scope)
        return self._compute(operator, value, value.scope) if _is_folded(operator.type) else None

    def _compute(self, operator: Any, value: Value, scope: Scope) -> Any:
        """Return the array that an operator makes of the arrays that it reads; None if one of them is not known."""
        values = [self.find_value(tensor, scope) for tensor in operator.inputs]
        inputs = [self.constant(value_read) for value_read in values]
        if any(constant is None for constant in inputs):
            return None
        if any(map(self.follows, values)):
            self._from_inputs.add(value.number)
        try:
            return run_operator(operator, inputs)
        except (tf.errors.OpError, ValueError, TypeError):
            return None  # the model itself will say so when it runs

    def _fold_shape(self, operator: Any, scope: Scope) -> Any:
        """Return the rank, the shape or the size of an operator's input; None if a size is not known."""
        shape = self.find_value(operator.inputs[0], scope).shape
        if shape is None:
            return None
        if operator.type == "Rank":
            return np.asarray(len(shape))
        sizes = Shape(size for size in shape if size is not None)
        if len(sizes) < len(shape):
            return None
        return np.asarray(sizes if operator.type == "Shape" else sizes.numel)
