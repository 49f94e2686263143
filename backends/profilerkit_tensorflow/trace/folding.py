"""What is known of a value before the model runs: small constants, and what follows from them and from shapes.

Loop limits, reshapes and axes are made of these: ``Max(Range(0, Shape(x)[0], 1))`` is a number once ``x`` has a shape.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import tensorflow as tf

from profilerkit.costs import Shape

from .folding_rules import RULES
from .ownership import Owner
from .tensor_facts import PartialShape, static_shape
from .values import NOT_FOLDED, Scope, Value

__all__ = ["Folding", "small_value"]

#: The most elements of an array that is kept: larger ones decide no loop and no axis.
LARGEST = 4096
#: Operators that tell something of their input's shape.
_OF_SHAPES = ("Shape", "Size", "Rank")


def small_value(tensor: Any) -> Any:
    """Return the numbers of an eager tensor that may decide a condition, a loop or a size; None for others."""
    is_number = tensor.dtype not in (tf.resource, tf.variant, tf.string)
    if not (is_number and hasattr(tensor, "numpy")):
        return None
    elements = tensor.shape.num_elements()  # None where the size is not known
    return tensor.numpy() if elements is not None and elements <= LARGEST else None


class Folding:
    """Keeps the values of one walk and finds their constants; each is found once and remembered on its value."""

    def __init__(self) -> None:
        self._numbers = count()
        #: The values that are known because the inputs that were given are.
        self._from_inputs: set[int] = set()
        #: Whether such a value has decided a branch or a loop.
        self.follows_inputs = False
        self._scopes: dict[int, Scope] = {}

    def new_value(self, shape: PartialShape, dtype: str, tensor: Any, scope: Scope | None = None) -> Value:
        """Return a new value."""
        if scope is not None:
            self._scopes[id(scope)] = scope
        return Value(next(self._numbers), shape, dtype, tensor, scope)

    def release(self) -> None:
        """Drop all values: they and their scopes refer to each other, and would keep the graph's tensors alive."""
        for scope in self._scopes.values():
            scope.values.clear()
        self._scopes.clear()

    def find_value(self, tensor: Any, scope: Scope) -> Value:
        """Return the value of a graph's tensor in a scope; one that no walked operator made is made from the graph."""
        value = scope.values.get(tensor.name)
        if value is None:
            value = scope.values[tensor.name] = self.new_value(static_shape(tensor), tensor.dtype.name, tensor, scope)
        return value

    def find_constant(self, tensor: Any) -> Any:
        """Return the numpy array of a tensor that is a constant of its graph, else None."""
        without_arguments = Scope(tensor.graph, [], None, Owner("", 0))  # so that only constants of the graph are known
        return self.constant(self.find_value(tensor, without_arguments))

    def give_input(self, value: Value, numbers: Any) -> None:
        """Give the value of an input its numpy array; None where it is not known."""
        value.constant = numbers
        self._from_inputs.add(value.number)

    def decide(self, value: Value) -> Any:
        """Return the numpy array of a value that decides a branch or a loop, else None; note whether inputs decide."""
        constant = self.constant(value)
        self.follows_inputs |= constant is not None and value.number in self._from_inputs
        return constant

    def constant(self, value: Value) -> Any:
        """Return a value's numpy array where it is known, else None."""
        if value.constant is NOT_FOLDED:
            value.constant = None  # what depends on itself is not known
            value.constant = self._fold(value)
        return value.constant

    def _fold(self, value: Value) -> Any:
        """Return the array that a value has in each run of the model; None where it is not known, or large."""
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
        rule = RULES.get(operator.type)
        if rule is None:
            return None
        values = [self.find_value(tensor, value.scope) for tensor in operator.inputs]
        inputs = [self.constant(value_read) for value_read in values]
        if any(constant is None for constant in inputs):
            return None
        if not self._from_inputs.isdisjoint(value_read.number for value_read in values):
            self._from_inputs.add(value.number)
        try:
            with np.errstate(all="ignore"):
                folded = rule(operator, inputs)
        except (ValueError, TypeError, IndexError, ZeroDivisionError, OverflowError):
            return None  # the model itself will say so when it runs
        # The kernel keeps the dtype where numpy takes another: the mean of the integers 1 and 4 is 2.
        return None if folded is None else np.asarray(folded, tf.as_dtype(value.dtype).as_numpy_dtype)

    def _fold_shape(self, operator: Any, scope: Scope) -> Any:
        """Return what an operator tells of its input's shape; None where a size is not known."""
        shape = self.find_value(operator.inputs[0], scope).shape
        if shape is None:
            return None
        if operator.type == "Rank":
            return np.asarray(len(shape))
        sizes = Shape(size for size in shape if size is not None)
        if len(sizes) < len(shape):
            return None
        return np.asarray(sizes if operator.type == "Shape" else sizes.numel)
