"""Values that are known before the model runs: small constants, and results of them and of shapes.

Loop limits, reshapes and axes are made of these: ``Max(Range(0, Shape(x)[0], 1))`` is a number once ``x`` has a shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from profilerkit.backend_kit.strided_slices import SliceMasks, make_index
from profilerkit.costs import Shape

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
    elements = tensor.shape.num_elements()  # None if the size is not known
    return tensor.numpy() if elements is not None and elements <= LARGEST else None


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
        return self._compute(operator, value, value.scope) if operator.type in _RULES else None

    def _compute(self, operator: Any, value: Value, scope: Scope) -> Any:
        """Return the array that an operator makes of the arrays that it reads; None if one of them is not known."""
        values = [self.find_value(tensor, scope) for tensor in operator.inputs]
        inputs = [self.constant(value_read) for value_read in values]
        if any(constant is None for constant in inputs):
            return None
        if any(map(self.follows, values)):
            self._from_inputs.add(value.number)
        try:
            with np.errstate(all="ignore"):
                folded = _RULES[operator.type](operator, inputs)
        except (ValueError, TypeError, IndexError, ZeroDivisionError, OverflowError):
            return None  # the model itself will say so when it runs
        # The kernel keeps the dtype if numpy would change it: the mean of the integers 1 and 4 is 2.
        return None if folded is None else np.asarray(folded, tf.as_dtype(value.dtype).as_numpy_dtype)

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


# Results of operators for known arrays, by functions of numpy ---------------------------------------------------------


#: Returns the array that an operator makes of the arrays that it reads; None for a variant that is not known here. Its
#: dtype may be another than the operator's.
_Rule: TypeAlias = Callable[[Any, Sequence[Any]], Any]


def _take_inputs(function: Callable[..., Any]) -> _Rule:
    """Return the rule of an operator that has no attributes that matter."""
    return lambda operator, inputs: function(*inputs)


def _make_reduction(function: Callable[..., Any]) -> _Rule:
    def reduce(operator: Any, inputs: Sequence[Any]) -> Any:
        array, axes = inputs
        reduced = tuple(int(axis) for axis in np.atleast_1d(axes))
        return function(array, axis=reduced, keepdims=bool(operator.get_attr("keep_dims")))

    return reduce


def _slice_with_strides(operator: Any, inputs: Sequence[Any]) -> Any:
    sliced, *numbers = inputs
    begins, ends, strides = (list(map(int, array)) for array in numbers)
    masks = SliceMasks(*(operator.get_attr(f"{name}_mask") for name in SliceMasks._fields))
    return sliced[make_index(begins, ends, strides, masks)]


def _cast(operator: Any, inputs: Sequence[Any]) -> Any:
    return inputs[0].astype(operator.get_attr("DstT").as_numpy_dtype)


def _squeeze(operator: Any, inputs: Sequence[Any]) -> Any:
    return np.squeeze(inputs[0], axis=tuple(operator.get_attr("squeeze_dims")) or None)


def _gather(operator: Any, inputs: Sequence[Any]) -> Any:
    """Take elements along an axis; with indices for each element of a batch, nothing is known."""
    array, indices, axis = inputs
    return None if operator.get_attr("batch_dims") else np.take(array, indices, axis=int(axis))


def _divide(x: Any, y: Any) -> Any:
    """Divide as the operator ``Div`` does: integers toward zero."""
    if not np.issubdtype(np.asarray(x).dtype, np.integer):
        return np.divide(x, y)
    return np.abs(x) // np.abs(y) * np.sign(x) * np.sign(y)


def _concatenate(*parts_and_axis: Any) -> Any:
    *parts, axis = parts_and_axis
    return np.concatenate(parts, axis=int(axis))


#: Functions of the arrays alone, by the operators.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("Identity", "StopGradient", "Snapshot", "PreventGradient"), lambda x: x),
    **dict.fromkeys(("Add", "AddV2"), np.add),
    "RealDiv": np.divide,
    "Div": _divide,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "FloorDiv": np.floor_divide,
    "FloorMod": np.mod,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "Neg": np.negative,
    "Abs": np.abs,
    "Ceil": np.ceil,
    "Floor": np.floor,
    "Square": np.square,
    "Sqrt": np.sqrt,
    "Sign": np.sign,
    "Round": np.round,
    "Equal": np.equal,
    "NotEqual": np.not_equal,
    "Less": np.less,
    "LessEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "LogicalAnd": np.logical_and,
    "LogicalOr": np.logical_or,
    "LogicalNot": np.logical_not,
    "SelectV2": np.where,
    "Range": np.arange,
    "Reshape": np.reshape,
    "Fill": np.full,
    "ExpandDims": lambda x, axis: np.expand_dims(x, int(axis)),
    "ArgMax": lambda x, axis: np.argmax(x, axis=int(axis)),
    "ArgMin": lambda x, axis: np.argmin(x, axis=int(axis)),
    "ConcatV2": _concatenate,
}
_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "Max": np.max,
    "Min": np.min,
    "Sum": np.sum,
    "Prod": np.prod,
    "Mean": np.mean,
    "All": np.all,
    "Any": np.any,
}
_RULES: Mapping[str, _Rule] = {
    **{kind: _take_inputs(function) for kind, function in _FUNCTIONS.items()},
    **{kind: _make_reduction(function) for kind, function in _REDUCTIONS.items()},
    "Pack": lambda operator, inputs: np.stack(inputs, axis=operator.get_attr("axis")),
    "GatherV2": _gather,
    "Squeeze": _squeeze,
    "StridedSlice": _slice_with_strides,
    "Cast": _cast,
}
