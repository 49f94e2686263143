"""What is known of a value before the model runs: small constants, and what follows from them and from shapes.

Loop limits, reshapes and axes are made of these: ``Max(Range(0, Shape(x)[0], 1))`` is a number once ``x`` has a shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np
import tensorflow as tf

from profilerkit.costs import Shape

from .ownership import Owner
from .values import NOT_FOLDED, PartialShape, Scope, Value, static_shape

__all__ = ["Folding", "small_value"]

#: Larger arrays decide no loop and no axis.
LARGEST = 4096


def small_value(tensor: Any) -> Any:
    """Return the numbers of an eager tensor that may decide a condition, a loop or a size; None for others."""
    is_number = tensor.dtype not in (tf.resource, tf.variant, tf.string)
    is_eager = is_number and hasattr(tensor, "numpy")
    return tensor.numpy() if is_eager and (tensor.shape.num_elements() or LARGEST + 1) <= LARGEST else None


class Folding:
    """Keeps the values of one walk and finds their constants; each is found once and remembered on its value."""

    def __init__(self) -> None:
        self._keys = count()
        self._scopes: dict[int, Scope] = {}

    def new_value(self, shape: PartialShape, dtype: str, tensor: Any, scope: Scope | None = None) -> Value:
        """Return a new value."""
        if scope is not None:
            self._scopes[id(scope)] = scope
        return Value(next(self._keys), shape, dtype, tensor, scope)

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
        return self.constant(self.find_value(tensor, Scope(tensor.graph, [], None, Owner("", 0))))

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
        kind = operator.type
        if kind == "Const":
            return tf.make_ndarray(operator.node_def.attr["value"].tensor)
        if kind in _OF_SHAPES:
            return self._fold_shape(operator, value.scope)
        rule = _RULES.get(kind)
        if rule is None:
            return None
        inputs = [self.constant(self.find_value(tensor, value.scope)) for tensor in operator.inputs]
        if any(constant is None for constant in inputs):
            return None
        try:
            with np.errstate(all="ignore"):
                return np.asarray(rule(operator, inputs))
        except (ValueError, TypeError, IndexError, ZeroDivisionError, OverflowError):
            return None  # the model itself will say so when it runs

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


_OF_SHAPES = ("Shape", "Size", "Rank")

Rule = Callable[[Any, Sequence[Any]], Any]


def _take_inputs(function: Callable[..., Any]) -> Rule:
    return lambda operator, inputs: function(*inputs)


def _make_reduction(function: Callable[..., Any]) -> Rule:
    def rule(operator: Any, inputs: Sequence[Any]) -> Any:
        axes = tuple(int(axis) for axis in np.atleast_1d(inputs[1]))
        return function(inputs[0], axis=axes, keepdims=bool(operator.get_attr("keep_dims")))

    return rule


def _slice_with_strides(operator: Any, inputs: Sequence[Any]) -> Any:
    """Return what ``x[1:-1, None, ..., 0]`` does, whose parts TensorFlow writes as bits of five masks."""
    sliced, begin, end, strides = inputs
    masks = {
        name: operator.get_attr(f"{name}_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    index: list[Any] = []
    for position, (first, last, step) in enumerate(zip(begin, end, strides, strict=True)):
        bit = 1 << position
        if masks["ellipsis"] & bit:
            index.append(Ellipsis)
        elif masks["new_axis"] & bit:
            index.append(None)
        elif masks["shrink_axis"] & bit:
            index.append(int(first))
        else:
            start = None if masks["begin"] & bit else int(first)
            stop = None if masks["end"] & bit else int(last)
            index.append(slice(start, stop, int(step)))
    return sliced[tuple(index)]


def _cast(operator: Any, inputs: Sequence[Any]) -> Any:
    return inputs[0].astype(operator.get_attr("DstT").as_numpy_dtype)


def _divide(x: Any, y: Any) -> Any:
    """Divide as the operator ``Div`` does: integers toward zero."""
    if not np.issubdtype(np.asarray(x).dtype, np.integer):
        return np.divide(x, y)
    return np.abs(x) // np.abs(y) * np.sign(x) * np.sign(y)


_RULES: dict[str, Rule] = {
    **{kind: _take_inputs(lambda x: x) for kind in ("Identity", "StopGradient", "Snapshot", "PreventGradient")},
    **{kind: _take_inputs(np.add) for kind in ("Add", "AddV2")},
    "RealDiv": _take_inputs(np.divide),
    "Div": _take_inputs(_divide),
    "Sub": _take_inputs(np.subtract),
    "Mul": _take_inputs(np.multiply),
    "FloorDiv": _take_inputs(np.floor_divide),
    "FloorMod": _take_inputs(np.mod),
    "Maximum": _take_inputs(np.maximum),
    "Minimum": _take_inputs(np.minimum),
    "Neg": _take_inputs(np.negative),
    "Abs": _take_inputs(np.abs),
    "Ceil": _take_inputs(np.ceil),
    "Floor": _take_inputs(np.floor),
    "Equal": _take_inputs(np.equal),
    "NotEqual": _take_inputs(np.not_equal),
    "Less": _take_inputs(np.less),
    "LessEqual": _take_inputs(np.less_equal),
    "Greater": _take_inputs(np.greater),
    "GreaterEqual": _take_inputs(np.greater_equal),
    "LogicalAnd": _take_inputs(np.logical_and),
    "LogicalOr": _take_inputs(np.logical_or),
    "LogicalNot": _take_inputs(np.logical_not),
    "SelectV2": _take_inputs(np.where),
    "Range": _take_inputs(np.arange),
    "Reshape": _take_inputs(np.reshape),
    "Fill": _take_inputs(np.full),
    "ExpandDims": _take_inputs(lambda x, axis: np.expand_dims(x, int(axis))),
    "GatherV2": _take_inputs(lambda x, indices, axis: np.take(x, indices, axis=int(axis))),
    "ConcatV2": _take_inputs(lambda *parts: np.concatenate(parts[:-1], axis=int(parts[-1]))),
    "Pack": lambda operator, inputs: np.stack(inputs, axis=operator.get_attr("axis")),
    "Squeeze": lambda operator, inputs: np.squeeze(inputs[0], axis=tuple(operator.get_attr("squeeze_dims")) or None),
    "StridedSlice": _slice_with_strides,
    "Cast": _cast,
    "Max": _make_reduction(np.max),
    "Min": _make_reduction(np.min),
    "Sum": _make_reduction(np.sum),
    "Prod": _make_reduction(np.prod),
    "Mean": _make_reduction(np.mean),
    "All": _make_reduction(np.all),
    "Any": _make_reduction(np.any),
    "Square": _take_inputs(np.square),
    "Sqrt": _take_inputs(np.sqrt),
    "Sign": _take_inputs(np.sign),
    "Round": _take_inputs(np.round),
    "ArgMax": lambda operator, inputs: np.argmax(inputs[0], axis=int(inputs[1])),
    "ArgMin": lambda operator, inputs: np.argmin(inputs[0], axis=int(inputs[1])),
}
